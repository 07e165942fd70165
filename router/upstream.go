package router

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// idleConnection is how long an unused connection to an engine is kept.
// uvicorn closes its side after 5 s (VLLM_HTTP_TIMEOUT_KEEP_ALIVE); a request
// sent into that closing would be lost.
const idleConnection = 4 * time.Second

// dialTimeout bounds connecting: engines are on this machine, or near it.
const dialTimeout = 3 * time.Second

// upstream is one process of a replica and the connections to it. A restarted
// replica is another upstream: what still runs on the old one counts there.
type upstream struct {
	id         ReplicaID
	generation uint64
	transport  *http.Transport
	host       string // for request URLs and the Host header

	held     atomic.Int64 // turns placed here whose last byte is not sent
	lastByte atomic.Int64 // Unix nanoseconds of the latest data, 0 before

	// Guarded by the deployment's lock.
	facts  Replica
	paused bool        // connecting failed a moment ago
	resume *time.Timer // ends the pause
}

func newUpstream(facts Replica, dial func(context.Context, string) (net.Conn, error)) *upstream {
	u := &upstream{id: facts.ID, generation: facts.Generation, facts: facts, host: "localhost"}
	if host, ok := strings.CutPrefix(facts.Address, "http://"); ok {
		u.host = strings.TrimSuffix(host, "/")
	}
	u.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, err := dial(ctx, facts.Address)
			if err != nil {
				return nil, &dialError{err}
			}
			return conn, nil
		},
		DisableCompression:  true,
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     idleConnection,
	}
	return u
}

// dialAddress connects to unix:/path or http://host:port.
func dialAddress(ctx context.Context, address string) (net.Conn, error) {
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

func isDialError(err error) bool {
	var d *dialError
	return errors.As(err, &d)
}

// dead is the failure of an engine whose API server still answers, but only to
// say that the engine behind it has died.
func (u *upstream) dead() error { return fmt.Errorf("replica %s: its engine is dead", u.id) }

// touch notes that data of an answer has arrived.
func (u *upstream) touch(now time.Time) { u.lastByte.Store(now.UnixNano()) }

// send makes one round trip. build is called for each connection tried: a
// reused one may have been closed by the engine at the very moment of writing,
// which says nothing about the engine's health, so that one more try on a
// fresh connection is part of the same attempt.
func (u *upstream) send(ctx context.Context, build func(context.Context) *http.Request) (*http.Response, error) {
	for fresh := false; ; fresh = true {
		reused := false
		traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
		})
		resp, err := u.transport.RoundTrip(build(traced))
		if err == nil || !reused || fresh || ctx.Err() != nil {
			return resp, err
		}
		u.transport.CloseIdleConnections()
	}
}
