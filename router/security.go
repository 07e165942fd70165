package router

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Header limits: real clients send under 40 fields and 4 KiB.
const (
	maxHeaderBytes = 64 << 10
	maxHeaders     = 100
)

// guard decides from the headers alone whether a request may come in. Its
// rules stop web pages: a page that has rebound its own name to 127.0.0.1
// sends that name as Host, and any page's request carries its Origin.
type guard struct {
	hosts   []string
	origins []string
}

func newGuard(o Options) guard {
	g := guard{origins: o.Origins}
	for _, h := range o.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(strings.TrimSuffix(h, ".")))
	}
	return g
}

// check returns nil when req may come in.
func (g guard) check(req *http.Request) *refusal {
	fields := 0
	for _, values := range req.Header {
		fields += len(values)
	}
	if fields > maxHeaders {
		return forbid(http.StatusRequestHeaderFieldsTooLarge,
			fmt.Sprintf("%d header fields, at most %d are accepted", fields, maxHeaders))
	}
	if !g.hostAllowed(req) {
		return forbid(http.StatusForbidden, fmt.Sprintf(
			"host %q is not one of warden's names; add it to the allowed hosts if it is meant to be", req.Host))
	}
	origin, listed := g.origin(req)
	if origin != "" && !listed {
		return forbid(http.StatusForbidden, fmt.Sprintf(
			"origin %q is not allowed; add it to the allowed origins if pages from there may use warden", origin))
	}
	if !listed && strings.EqualFold(req.Header.Get("Sec-Fetch-Site"), "cross-site") {
		return forbid(http.StatusForbidden, "request from a page of another site")
	}
	return nil
}

// origin returns the Origin header and whether it is listed. "null", which
// sandboxed pages send, never is.
func (g guard) origin(req *http.Request) (origin string, listed bool) {
	values := req.Header.Values("Origin")
	if len(values) == 0 {
		return "", false
	}
	if len(values) > 1 || values[0] == "" {
		return "(malformed)", false
	}
	return values[0], values[0] != "null" && slices.Contains(g.origins, values[0])
}

func (g guard) hostAllowed(req *http.Request) bool {
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

// preflight answers a listed origin's CORS questions and marks every answer
// for it as readable; it reports whether the request is done with.
func (r *Router) preflight(w http.ResponseWriter, req *http.Request) bool {
	origin, listed := r.guard.origin(req)
	if !listed {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	if req.Method != http.MethodOptions || req.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST")
	h.Set("Access-Control-Allow-Headers", req.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
