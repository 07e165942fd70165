// Package gate decides from headers alone what may pass: which requests come in
// at all, which of their headers an engine gets, and which of an engine's
// headers a client gets. It is pure; gate.go and headers.go can be read in any
// order.
package gate

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/lm-warden/warden/router/dialect"
)

// Header limits: real clients send under 40 fields and 4 KiB.
const (
	MaxHeaderBytes = 64 << 10
	MaxHeaders     = 100
)

// Guard decides whether a request may come in. Its rules stop web pages: a page that has rebound its own name to 127.0.0.1
// sends that name as Host, and any page's request carries its Origin.
type Guard struct {
	hosts   []string
	origins []string
}

// NewGuard returns a Guard that accepts, beside this machine's own names, hosts
// in the Host header, and pages from origins (scheme://host:port).
func NewGuard(hosts, origins []string) Guard {
	g := Guard{origins: origins}
	for _, h := range hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	return g
}

// Check returns nil when req may come in.
func (g Guard) Check(req *http.Request) *dialect.Error {
	fields := 0
	for _, values := range req.Header {
		fields += len(values)
	}
	if fields > MaxHeaders {
		return deny(http.StatusRequestHeaderFieldsTooLarge,
			fmt.Sprintf("%d header fields, at most %d are accepted", fields, MaxHeaders))
	}
	if !g.hostAllowed(req) {
		return deny(http.StatusForbidden, fmt.Sprintf(
			"host %q is not one of warden's names; add it to `allowed_hosts` if it is meant to be", req.Host))
	}
	origin, listed := g.Origin(req)
	if origin != "" && !listed {
		return deny(http.StatusForbidden, fmt.Sprintf(
			"origin %q is not allowed; add it to `allowed_origins` if pages from there may use warden", origin))
	}
	if !listed && strings.EqualFold(req.Header.Get("Sec-Fetch-Site"), "cross-site") {
		return deny(http.StatusForbidden, "request from a page of another site")
	}
	return nil
}

// Origin returns the Origin header and whether it is listed. "null", which
// sandboxed pages send, never is.
func (g Guard) Origin(req *http.Request) (origin string, listed bool) {
	values := req.Header.Values("Origin")
	if len(values) == 0 {
		return "", false
	}
	if len(values) > 1 || values[0] == "" {
		return "(malformed)", false
	}
	return values[0], values[0] != "null" && slices.Contains(g.origins, values[0])
}

func (g Guard) hostAllowed(req *http.Request) bool {
	// The usual case, without the reading of a whole URL.
	if at, err := netip.ParseAddrPort(req.Host); err == nil && at.Addr().Is4() && at.Addr().IsLoopback() {
		return true
	}
	name := hostName(req.Host)
	if name == "" {
		return false
	}
	if name == "localhost" || slices.Contains(g.hosts, name) {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	return ip.IsLoopback() || ip == localIP(req)
}

// hostName is the lower-case host without port, brackets and final dot; ""
// for anything that is not exactly that.
func hostName(host string) string {
	u, err := url.Parse("http://" + host)
	if err != nil || u.Host != host || u.User != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// localIP is the address that the connection came in on: a client that names
// it has not been misled by DNS.
func localIP(req *http.Request) netip.Addr {
	addr, _ := req.Context().Value(http.LocalAddrContextKey).(net.Addr)
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap()
}

func deny(status int, message string) *dialect.Error {
	return &dialect.Error{Status: status, Message: message}
}
