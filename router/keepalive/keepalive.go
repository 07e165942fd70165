// Package keepalive takes connections away from net/http for the length of an
// answer, and gives them back for the next request.
//
// What net/http holds for a request while its answer lasts (a second goroutine,
// 12 KiB of buffers and as much of stacks, the request itself) is more than all
// else that a stream needs while it waits for its next token. A hijacked
// connection gives that back, but net/http does not take one back: here it comes
// back as a new one, out of a second listener.
package keepalive

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lm-warden/warden/router/socket"
)

// key is where a connection lies in the contexts of its requests.
type key struct{}

// Serve is server.Serve(l) for connections that can be taken away. It returns
// when the server is closed; when only l is closed, connections that are open
// are still served until then.
func Serve(server *http.Server, l net.Listener) error {
	b := &back{conns: make(chan net.Conn), closed: make(chan struct{}), addr: l.Addr(), server: server}
	before := server.ConnContext
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		if before != nil {
			ctx = before(ctx, c)
		}
		return context.WithValue(ctx, key{}, c)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(b) // http.ErrServerClosed
	}()
	err := server.Serve(listener{l, b})
	if !errors.Is(err, net.ErrClosed) && !errors.Is(err, http.ErrServerClosed) {
		_ = b.Close()
	}
	<-ended
	return err
}

type listener struct {
	net.Listener
	back *back
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, back: l.back}, nil
}

// back is the listener that connections come back from.
type back struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	addr   net.Addr
	server *http.Server
}

func (b *back) Accept() (net.Conn, error) {
	select {
	case c := <-b.conns:
		return c, nil
	case <-b.closed:
		return nil, net.ErrClosed
	}
}

func (b *back) Close() error {
	b.once.Do(func() { close(b.closed) })
	return nil
}

func (b *back) Addr() net.Addr { return b.addr }

// idle is how long net/http keeps a connection between two requests.
func (b *back) idle() time.Duration {
	return cmp.Or(b.server.IdleTimeout, b.server.ReadTimeout)
}

// conn is a client's connection.
type conn struct {
	net.Conn
	back  *back
	ahead []byte // read by net/http, but not of the request that it was taken with

	taken atomic.Bool
	// between: it has come back and waits for its next request. net/http takes it
	// for a new one, which must send its first at once.
	between atomic.Bool
	patient time.Duration // what net/http gives the head of a request; 0: no limit
}

// NetConn is the connection underneath.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	for {
		n, err := c.Conn.Read(p)
		if !c.between.Load() {
			return n, err
		}
		n = copy(p, begun(p[:n]))
		if n > 0 {
			c.between.Store(false)
			_ = c.Conn.SetReadDeadline(after(c.patient))
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// begun is data from where a request begins. Old clients send a line end behind
// a body, which net/http forgives those that it has kept (RFC 9112 section 2.2).
func begun(data []byte) []byte { return bytes.TrimLeft(data, "\r\n") }

// SetReadDeadline gives a connection between two requests the time that
// net/http gives to those that it has kept.
func (c *conn) SetReadDeadline(t time.Time) error {
	if left := time.Until(t); left > 0 && c.between.Load() {
		c.patient = left
		t = after(c.back.idle())
	}
	return c.Conn.SetReadDeadline(t)
}

// after is a deadline; none for 0.
func after(limit time.Duration) time.Time {
	if limit <= 0 {
		return time.Time{}
	}
	return time.Now().Add(limit)
}

// Close tells of connections that net/http no longer tells of.
func (c *conn) Close() error {
	if c.taken.Swap(false) && c.back.server.ConnState != nil {
		c.back.server.ConnState(c, http.StateClosed)
	}
	return c.Conn.Close()
}

// Taken is a connection that has been taken away from net/http. It belongs to
// its taker, who ends it with GiveBack or Close.
type Taken struct {
	// Trier writes, without waiting where that is wanted.
	socket.Trier
	conn *conn
	keep bool
}

// Can reports whether the connection of a request can be taken: one of Serve's,
// of HTTP/1.1, that is a socket and not TLS.
func Can(req *http.Request) bool {
	c, ok := req.Context().Value(key{}).(*conn)
	return ok && req.TLS == nil && req.ProtoMajor == 1 && req.ProtoMinor >= 1 && socket.Under(c.Conn) != nil
}

// Take takes the connection of a request for which Can holds, whose body has been
// read to its end: what is left of one would be taken for a request. What has been
// written to w is sent. The handler should return soon and touch neither w nor req
// again.
func Take(w http.ResponseWriter, req *http.Request) (*Taken, error) {
	keep := !req.Close && w.Header().Get("Connection") != "close"
	under, ahead, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, err
	}
	c := under.(*conn)
	c.taken.Store(true)
	c.ahead = left(ahead.Reader)
	return &Taken{Trier: socket.Under(c.Conn), conn: c, keep: keep}, nil
}

// left copies what a reader holds.
func left(r *bufio.Reader) []byte {
	held, _ := r.Peek(r.Buffered())
	return append([]byte(nil), held...)
}

// Close closes the connection.
func (t *Taken) Close() error { return t.conn.Close() }

// GiveBack ends a whole answer: the connection waits for its next request where
// client and server want that, and is closed otherwise.
func (t *Taken) GiveBack() {
	c := t.conn
	if !t.keep {
		_ = c.Close()
		return
	}
	c.ahead = begun(c.ahead)
	c.between.Store(len(c.ahead) == 0)
	c.patient = 0
	_ = c.Conn.SetWriteDeadline(time.Time{})
	_ = c.Conn.SetReadDeadline(after(c.back.idle()))
	c.taken.Store(false)
	select {
	case c.back.conns <- c:
	case <-c.back.closed:
		c.taken.Store(true)
		_ = c.Close()
	}
}
