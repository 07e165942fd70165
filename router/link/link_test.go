package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestAddresses(t *testing.T) {
	for _, address := range []string{"", "r0", "tcp://127.0.0.1:1", "https://127.0.0.1:1", "http://"} {
		if _, err := Dial(t.Context(), address); err == nil || !strings.Contains(err.Error(), "neither unix:/path nor http://host:port") {
			t.Errorf("%q: %v", address, err)
		}
	}
}

func TestHosts(t *testing.T) {
	for address, want := range map[string]string{"unix:/run/r0.sock": "localhost", "http://127.0.0.1:81/": "127.0.0.1:81"} {
		if got := New(address, Dial).Host(); got != want {
			t.Errorf("%s: host %q, want %q", address, got, want)
		}
	}
}

// Only a failure to connect is one: the caller blames the process for it.
func TestNotConnected(t *testing.T) {
	refused := errors.New("refused")
	l := New("unix:/x", func(context.Context, string) (net.Conn, error) { return nil, refused })
	_, err := l.Send(t.Context(), func(ctx context.Context) *http.Request {
		req, _ := http.NewRequestWithContext(ctx, "GET", "http://localhost/", nil)
		return req
	})
	if !errors.Is(err, refused) || !NotConnected(fmt.Errorf("replica r0: %w", err)) {
		t.Errorf("a refused connection: %v", err)
	}
	if NotConnected(refused) || NotConnected(nil) {
		t.Error("another error was taken for a refused connection")
	}
}
