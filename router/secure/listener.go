package secure

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

const (
	// handshakeLimit bounds a handshake: a client that connects and says
	// nothing costs a goroutine and a descriptor for so long.
	handshakeLimit = 10 * time.Second
	// maxStreams is how many requests one HTTP/2 connection may have open; 100
	// is what RFC 9113 6.5.2 asks for at least.
	maxStreams = 100
	// pingAfter is the silence after which an HTTP/2 client is asked whether it
	// is still there, pingLimit how long it may take to say so.
	pingAfter, pingLimit = 30 * time.Second, 15 * time.Second
	// writeLimit bounds how long an HTTP/2 client may read nothing.
	writeLimit = 30 * time.Second
)

// Configure lets s speak HTTP/2 with the connections of Listen.
func (c *Certificate) Configure(s *http.Server) {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	s.Protocols = &protocols
	s.TLSConfig = c.config()
	s.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: maxStreams, SendPingTimeout: pingAfter, PingTimeout: pingLimit, WriteByteTimeout: writeLimit,
	}
}

// Listen serves TLS on l. Its Accept returns a connection once the client's
// handshake is done: a *tls.Conn where HTTP/2 was agreed on, and what http1
// makes of it otherwise.
func (c *Certificate) Listen(l net.Listener, http1 func(net.Conn) net.Conn) net.Listener {
	t := &listener{Listener: l, config: c.config(), http1: http1, ready: make(chan accepted)}
	t.ctx, t.end = context.WithCancel(context.Background())
	t.all.Go(t.run)
	return t
}

type listener struct {
	net.Listener
	config *tls.Config
	http1  func(net.Conn) net.Conn
	ready  chan accepted
	ctx    context.Context // ends all handshakes
	end    context.CancelFunc
	all    sync.WaitGroup
}

type accepted struct {
	conn net.Conn
	err  error
}

func (t *listener) Accept() (net.Conn, error) {
	select {
	case a := <-t.ready:
		return a.conn, a.err
	case <-t.ctx.Done():
		return nil, net.ErrClosed
	}
}

// Close also ends the handshakes that are under way.
func (t *listener) Close() error {
	t.end()
	err := t.Listener.Close()
	t.all.Wait()
	return err
}

// run accepts until the listener is closed. Errors go to the caller of Accept,
// who knows which of them pass by themselves and waits.
func (t *listener) run() {
	for t.ctx.Err() == nil {
		conn, err := t.Listener.Accept()
		if err != nil {
			t.deliver(accepted{err: err})
			if errors.Is(err, net.ErrClosed) {
				return
			}
			continue
		}
		t.all.Go(func() {
			if conn := t.handshake(conn); conn != nil && !t.deliver(accepted{conn: conn}) {
				conn.Close()
			}
		})
	}
}

func (t *listener) deliver(a accepted) bool {
	select {
	case t.ready <- a:
		return true
	case <-t.ctx.Done():
		return false
	}
}

// handshake returns nil when it fails: a client that only knocks is no event.
func (t *listener) handshake(under net.Conn) net.Conn {
	conn := tls.Server(under, t.config)
	ctx, done := context.WithTimeout(t.ctx, handshakeLimit)
	defer done()
	if err := conn.HandshakeContext(ctx); err != nil {
		var plain tls.RecordHeaderError
		if errors.As(err, &plain) && plain.Conn != nil && looksLikeHTTP(plain.RecordHeader) {
			_ = plain.Conn.SetDeadline(time.Now().Add(time.Second))
			_, _ = io.WriteString(plain.Conn, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nwarden speaks TLS here: use https://\n")
		}
		under.Close()
		return nil
	}
	if conn.ConnectionState().NegotiatedProtocol == "h2" {
		return conn
	}
	return t.http1(conn)
}

// looksLikeHTTP says whether a TLS record's first bytes are a method's.
func looksLikeHTTP(start [5]byte) bool {
	switch string(start[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "OPTIO":
		return true
	}
	return false
}
