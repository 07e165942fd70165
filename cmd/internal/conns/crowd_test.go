package conns

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A stranger who is refused must not be able to fill the memory with a header
// that never ends.
func TestRefusalReadsNoEndlessHeader(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	ended := make(chan struct{})
	go func() { defer close(ended); refuse(there) }()
	sent, err := 0, error(nil)
	for block := []byte(strings.Repeat("x", 1<<10)); err == nil && sent < 16*maxRefusedHead; {
		var n int
		n, err = here.Write(block)
		sent += n
	}
	<-ended
	if sent > 2*maxRefusedHead {
		t.Errorf("%d bytes of a header were read", sent)
	}
}

func TestCrowd(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer // read when the server has ended
	crowd := NewCrowd(listener, 1, slog.New(slog.NewTextHandler(&said, nil)))
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body) // all of it, so that the connection can be used again
	})}
	closed := make(chan struct{}, 2)
	server.ConnState = func(conn net.Conn, state http.ConnState) {
		crowd.Track(conn, state)
		if state == http.StateClosed {
			closed <- struct{}{}
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(crowd) }()
	get := func(transport *http.Transport) (int, error) {
		resp, err := (&http.Client{Transport: transport}).Post("http://"+listener.Addr().String(), "text/plain", strings.NewReader(strings.Repeat("x", 100_000)))
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		return resp.StatusCode, errors.Join(err, resp.Body.Close())
	}
	first, second := &http.Transport{}, &http.Transport{}
	for i, want := range []struct {
		from *http.Transport
		code int
	}{{first, 200}, {second, 503}, {first, 200}, {second, 503}} {
		if code, err := get(want.from); code != want.code || err != nil {
			t.Errorf("request %d: %d %v, want %d", i, code, err, want.code)
		}
	}
	first.CloseIdleConnections()
	<-closed
	if code, err := get(second); code != 200 || err != nil {
		t.Errorf("no room for the second after the first has gone: %d %v", code, err)
	}
	second.CloseIdleConnections()
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if n := strings.Count(said.String(), "level=WARN"); n != 1 {
		t.Errorf("%d warnings for some refusals in a row, want 1", n)
	}
}
