package link

import (
	"io"
	"os"
	"syscall"

	"github.com/lm-warden/warden/router/pump"
	"github.com/lm-warden/warden/router/socket"
)

// Release prepares Each: the connection leaves Go's network poller until the
// answer is over, and can be read by Each alone. False says that this cannot be,
// and that nothing has changed: it is no socket, or there are no descriptors left.
func (a *Answer) Release(p *pump.Pump) bool {
	if p.Start() != nil {
		return false
	}
	_, ok := a.conn.release()
	return ok
}

// Each gives all pieces of the rest of the body to take, until that returns
// false; the error is then nil, and otherwise as for Next. While it waits, the
// connection is in p, and take is called there: it must not wait for anything.
// left is called there when client has left. Connections that are no sockets are
// read by the caller's own goroutine.
func (a *Answer) Each(p *pump.Pump, client pump.Client, left func(), take func(piece []byte) (more bool)) error {
	for a.err != nil || a.broken != nil || len(a.rest)+len(a.conn.unread) > 0 || a.body.over() {
		piece, err := a.Next()
		if err != nil {
			return err
		}
		if !take(piece) {
			return nil
		}
	}
	a.conn.giveBack()
	fd, ok := a.conn.release() // until the answer is over
	if !ok {
		for {
			piece, err := a.Next()
			if err != nil {
				return err
			}
			if !take(piece) {
				return nil
			}
		}
	}
	s := steps{answer: a, fd: uintptr(fd), take: take}
	err := p.Run(pump.Work{FD: fd, Step: s.step, Client: client, Left: left})
	switch {
	case err != nil: // of the pump's own
		a.fail(err)
		return err
	case s.failed != nil:
		a.fail(s.failed)
		return a.err
	case s.stopped:
		return nil
	}
	_, err = a.Next() // the body is over, or not properly framed
	return err
}

// steps is one Each in a pump.
type steps struct {
	answer  *Answer
	fd      uintptr
	take    func(piece []byte) bool
	stopped bool  // by take
	failed  error // of the connection
}

func (s *steps) step(buffer []byte) (more bool) {
	n, err := socket.Read(s.fd, buffer)
	switch {
	case err == syscall.EAGAIN:
		return true
	case err != nil:
		s.failed = os.NewSyscallError("read", err)
		return false
	case n == 0:
		s.failed = io.EOF
		return false
	}
	a := s.answer
	data, rest, err := a.body.take(buffer[:n])
	a.broken = err
	if len(rest) > 0 { // what nobody asked for; the buffer is not ours
		a.reusable = false
	}
	if len(data) > 0 && !s.take(data) {
		s.stopped = true
		return false
	}
	return err == nil && !a.body.over()
}
