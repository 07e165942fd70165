// Package socket reads and writes connections with system calls that the Go
// scheduler is not told of.
//
// A system call may block, so Go's scheduler is made ready for that each time:
// it wakes its monitor thread (runtime.sysmon), which then looks every 20 µs,
// for a millisecond at least, whether the call is back. A call on a socket in
// non-blocking mode, as all of Go's are, only copies. For a proxy of streams,
// where a whole turn of the scheduler is one small read and one small write,
// the monitor was a fifth of its CPU time (64 streams at 50 events/s).
//
// Waiting stays with Go's network poller, deadlines and Close included; only
// the calls themselves are made directly. The longest is the copy of what the
// kernel's buffers hold, tens of microseconds.
//
// Reader's path: conn.go wraps connections and listeners; call.go has the
// calls. Under the race detector they are package syscall's, which tell it what
// happened before what.
package socket

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Listen wraps l: its connections are as New makes them.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return New(c), nil
}

// New wraps a connection; one without a socket of its own (TLS, a test's pipe)
// is returned as it is. At most one goroutine may read and one write at a time.
func New(under net.Conn) net.Conn {
	file, ok := under.(syscall.Conn)
	if !ok {
		return under
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return under
	}
	c := &conn{Conn: under, raw: raw}
	c.read.ready, c.write.ready, c.try.now = c.readNow, c.writeNow, c.tryNow
	return c
}

type conn struct {
	net.Conn
	raw         syscall.RawConn
	read, write transfer
	try         attempt
}

// attempt is a TryWritev under way.
type attempt struct {
	now    func(fd uintptr)
	pieces [][]byte
	n      int
	err    error
}

// transfer is a Read or Write under way.
type transfer struct {
	ready func(fd uintptr) (done bool) // made once: a method value is an allocation
	left  []byte                       // room that is empty, or bytes not yet sent
	n     int
	err   error
}

// NetConn is the connection underneath.
func (c *conn) NetConn() net.Conn { return c.Conn }

func (c *conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return c.Conn.Read(p)
	}
	c.read.left, c.read.n, c.read.err = p, 0, nil
	err := c.raw.Read(c.read.ready)
	c.read.left = nil
	switch {
	case err != nil:
		return 0, c.failed("read", err)
	case c.read.err != nil:
		return 0, c.failed("read", os.NewSyscallError("read", c.read.err))
	case c.read.n == 0:
		return 0, io.EOF
	}
	return c.read.n, nil
}

func (c *conn) readNow(fd uintptr) (done bool) {
	c.read.n, c.read.err = Read(fd, c.read.left)
	return c.read.err != syscall.EAGAIN
}

func (c *conn) Write(p []byte) (int, error) {
	c.write.left, c.write.err = p, nil
	err := c.raw.Write(c.write.ready)
	n := len(p) - len(c.write.left)
	c.write.left = nil
	switch {
	case err != nil:
		return n, c.failed("write", err)
	case c.write.err != nil:
		return n, c.failed("write", os.NewSyscallError("write", c.write.err))
	}
	return n, nil
}

func (c *conn) writeNow(fd uintptr) (done bool) {
	for len(c.write.left) > 0 {
		n, err := Write(fd, c.write.left)
		if err == syscall.EAGAIN {
			return false
		}
		if err != nil {
			c.write.err = err
			return true
		}
		c.write.left = c.write.left[n:]
	}
	return true
}

// Trier is a connection that can be written to without waiting.
type Trier interface {
	net.Conn
	// TryWritev writes what there is room for now: less than all of pieces, or
	// nothing, is no error. It counts as a Write.
	TryWritev(pieces [][]byte) (n int, err error)
	// Control calls f with the socket, which stays open until f returns.
	Control(f func(fd uintptr)) error
}

// Under finds the Trier under what has been put around a connection, as far as
// that passes writes on unchanged: nil for TLS.
func Under(c net.Conn) Trier {
	for c != nil {
		switch found := c.(type) {
		case Trier:
			return found
		case *tls.Conn:
			return nil
		case interface{ NetConn() net.Conn }:
			c = found.NetConn()
		default:
			return nil
		}
	}
	return nil
}

func (c *conn) TryWritev(pieces [][]byte) (int, error) {
	c.try.pieces, c.try.n, c.try.err = pieces, 0, nil
	err := c.raw.Control(c.try.now)
	c.try.pieces = nil
	switch {
	case err != nil:
		return 0, c.failed("write", err)
	case c.try.err != nil && c.try.err != syscall.EAGAIN:
		return 0, c.failed("write", os.NewSyscallError("writev", c.try.err))
	}
	return c.try.n, nil
}

func (c *conn) Control(f func(fd uintptr)) error { return c.raw.Control(f) }

func (c *conn) tryNow(fd uintptr) { c.try.n, c.try.err = Writev(fd, c.try.pieces) }

// failed gives an error the form that net's own connections give it.
func (c *conn) failed(op string, err error) error {
	if wrapped, ok := errors.AsType[*net.OpError](err); ok {
		err = wrapped.Err
	}
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
