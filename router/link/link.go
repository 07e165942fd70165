// Package link holds the connections to one process of a replica, and speaks
// HTTP/1.1 over them.
//
// Reader's path:
//
//	link.go     Link, Send: one round trip, and one more when a connection was stale
//	dial.go     addresses, and the errors that say that nobody listens
//	idle.go     unused connections: kept for the next request, but not for long
//	request.go  writing a request
//	conn.go     reading: a buffer is held only while there is something in it
//	answer.go   the answer's head and its body, piece by piece
//	each.go     the rest of a body, read by a pump while its owner sleeps
//	framing.go  where a body ends, as a pure function of its bytes
//
// It exists beside net/http's Transport because of what a stream costs while
// it waits for its next token, which is most of the time: a Transport keeps two
// goroutines and 8 KiB of buffers for each connection, and copies each piece
// twice. Here the caller's own goroutine writes and reads, or a pump for all of
// them, and while an answer waits nothing is held but the connection. It is no
// general client: requests have their whole body in memory, there are no
// redirects, cookies, proxies, compression, TLS or HTTP/2, since engines are on
// this machine. The parsing of heads is net/http's own.
package link

import (
	"context"
	"net/http"
	"strings"
	"sync"
)

// Link is the connections to one process. Make one with New.
type Link struct {
	address string
	host    string
	dial    Dialer
	buffers *Buffers

	mu   sync.Mutex
	idle idle
}

// New returns a Link to address, which is dialled when the first request is
// sent. Links may share buffers; nil makes some.
func New(address string, dial Dialer, buffers *Buffers) *Link {
	if buffers == nil {
		buffers = new(Buffers)
	}
	l := &Link{address: address, host: "localhost", dial: dial, buffers: buffers}
	if host, ok := strings.CutPrefix(address, "http://"); ok {
		l.host = strings.TrimSuffix(host, "/")
	}
	return l
}

// Host is what stands in the Host header.
func (l *Link) Host() string { return l.host }

// Request is what is sent.
type Request struct {
	Method string
	Target string // path and query, escaped
	// Header has what is sent beside Host and Content-Length.
	Header http.Header
	// Body is sent piece by piece.
	Body [][]byte
}

// Send makes one round trip: it returns when the answer's head has come. The
// end of ctx cuts the connection, also later, while the answer is read; the
// caller must Close the answer. Nobody reads the request any more when Send
// returns.
//
// A reused connection may have been closed by the engine at the very moment of
// writing, which says nothing about the engine's health, so that one more try
// on a fresh connection is part of the same attempt.
func (l *Link) Send(ctx context.Context, req *Request) (*Answer, error) {
	for {
		c, reused, err := l.connect(ctx)
		if err != nil {
			return nil, err
		}
		a, err := c.roundTrip(ctx, req)
		if err == nil || !reused || ctx.Err() != nil {
			return a, err
		}
		// The others are as old, or older.
		l.closeIdle()
	}
}

// connect takes a used connection or makes one.
func (l *Link) connect(ctx context.Context) (c *conn, reused bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	for c := l.takeIdle(); c != nil; c = l.takeIdle() {
		if !c.stirred() {
			return c, true, nil
		}
		c.cut()
	}
	nc, err := l.dial(ctx, l.address)
	if err != nil {
		return nil, false, &dialError{err}
	}
	return newConn(l, nc), false, nil
}

func (c *conn) roundTrip(ctx context.Context, req *Request) (*Answer, error) {
	a := &Answer{conn: c, method: req.Method}
	a.stop = context.AfterFunc(ctx, c.cut)
	whole, err := c.send(req)
	if err == nil {
		err = a.readHead()
	}
	if err != nil {
		a.Close()
		return nil, err
	}
	a.reusable = a.reusable && whole
	return a, nil
}
