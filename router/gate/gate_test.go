package gate

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The address that a connection came in on may be named, whatever it is.
func TestHostMayBeTheBoundAddress(t *testing.T) {
	g := NewGuard(nil, nil)
	req := httptest.NewRequest("GET", "http://192.0.2.7:8000/health", nil)
	local := func(ip string) *http.Request {
		return req.WithContext(context.WithValue(req.Context(), http.LocalAddrContextKey,
			net.Addr(&net.TCPAddr{IP: net.ParseIP(ip), Port: 8000})))
	}
	if g.Check(local("192.0.2.7")) != nil {
		t.Error("the bound address was refused")
	}
	if g.Check(local("192.0.2.8")) == nil || g.Check(req) == nil {
		t.Error("another address was accepted")
	}
}

func TestRequestIDsAreHarmless(t *testing.T) {
	for id, keep := range map[string]bool{
		"abc-123": true, "": false, strings.Repeat("x", 129): false, "a b": false, "a\"b": false, "a\x7fb": false, "é": false,
	} {
		req := httptest.NewRequest("POST", "/", nil)
		req.Header.Set("X-Request-Id", id)
		if got := RequestID(req); (got == id) != keep || got == "" {
			t.Errorf("%q became %q", id, got)
		}
	}
}

func FuzzHostName(f *testing.F) {
	for _, h := range []string{"localhost:8000", "[::1]:80", "a@b", "x/../y", ":80", "LOCALHOST.", "127.0.0.1"} {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, host string) {
		name := hostName(host)
		if strings.ContainsAny(name, "/@?# \t") || name != strings.ToLower(name) {
			t.Errorf("%q became %q", host, name)
		}
		if name != "" && !strings.Contains(strings.ToLower(host), strings.TrimSuffix(name, ".")) && !strings.Contains(host, "%") {
			t.Errorf("%q became %q, which it does not contain", host, name)
		}
	})
}
