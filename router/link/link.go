// Package link holds the connections to one process of a replica: how its
// address is dialled, how long an unused connection is kept, and what a failed
// one says about the process.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"time"
)

// Idle is how long an unused connection to an engine is kept. uvicorn closes
// its side after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); a request sent into that
// closing would be lost.
const Idle = 4 * time.Second

// dialTimeout bounds connecting: engines are on this machine, or near it.
const dialTimeout = 3 * time.Second

// maxIdle is the number of unused connections kept: a burst of turns leaves
// that many behind, for the next burst.
const maxIdle = 64

// Dialer connects to an address in the form of Dial.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Link is the connections to one process. Make one with New.
type Link struct {
	transport *http.Transport
	host      string
}

// New returns a Link to address, which is dialled when the first request is
// sent.
func New(address string, dial Dialer) *Link {
	l := &Link{host: "localhost"}
	if host, ok := strings.CutPrefix(address, "http://"); ok {
		l.host = strings.TrimSuffix(host, "/")
	}
	l.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx, address)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     Idle,
	}
	return l
}

// Host is what stands in request URLs and the Host header.
func (l *Link) Host() string { return l.host }

// Close closes the unused connections; requests in flight go on.
func (l *Link) Close() { l.transport.CloseIdleConnections() }

// Send makes one round trip. build is called for each connection tried: a
// reused one may have been closed by the engine at the very moment of writing,
// which says nothing about the engine's health, so that one more try on a
// fresh connection is part of the same attempt.
func (l *Link) Send(ctx context.Context, build func(context.Context) *http.Request) (*http.Response, error) {
	for fresh := false; ; fresh = true {
		reused := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
		})
		resp, err := l.transport.RoundTrip(build(traced))
		if err == nil || !reused || fresh || ctx.Err() != nil {
			return resp, err
		}
		l.transport.CloseIdleConnections()
	}
}

// Dial connects to unix:/path or http://host:port.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return d.DialContext(ctx, "unix", path)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("replica address %q is neither unix:/path nor http://host:port", address)
	}
	return d.DialContext(ctx, "tcp", u.Host)
}

// dialError: nothing was sent, because no connection could be made.
type dialError struct{ err error }

func (e *dialError) Error() string { return e.err.Error() }
func (e *dialError) Unwrap() error { return e.err }

// NotConnected reports whether err means that no connection could be made.
func NotConnected(err error) bool {
	var d *dialError
	return errors.As(err, &d)
}
