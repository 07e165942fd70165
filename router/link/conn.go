package link

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/router/pump"
	"github.com/lm-warden/warden/router/socket"
)

// bufferSize is how much is read at a time. Events of a stream come one by one
// and are a few hundred bytes; this is for large answers and for engines that
// are faster than their client. No buffer is held while a connection is quiet.
const bufferSize = 32 << 10

// Buffers lends the buffers that answers are read into. The zero value is
// ready.
type Buffers struct{ pool sync.Pool }

func (b *Buffers) get() *[]byte {
	if p, ok := b.pool.Get().(*[]byte); ok {
		return p
	}
	p := make([]byte, bufferSize)
	return &p
}

func (b *Buffers) put(p *[]byte) { b.pool.Put(p) }

// conn is one connection. It belongs to one goroutine at a time, or to a pump;
// only cut may be called from another one.
type conn struct {
	link *Link

	mu sync.Mutex // guards what cut needs
	net.Conn
	released int  // its socket, while a pump has it; -1
	ended    bool // cut

	// raw reads without waiting: a buffer is then taken only once there is
	// something to read. nil for connections that are no file (tests in virtual
	// time): they hold a buffer while they wait.
	raw      syscall.RawConn
	tryRead  func(fd uintptr) (done bool)
	tryPeek  func(fd uintptr) (done bool)
	tryWrite func(fd uintptr) (done bool)
	trySome  func(fd uintptr)
	got      int
	failed   error

	sending net.Buffers // what is left of a write under way
	sent    int64

	buffer *[]byte // on loan, while there is something unread in it
	unread []byte  // the part of it that has not been used
}

func newConn(l *Link, nc net.Conn) *conn {
	c := &conn{link: l, released: -1}
	c.use(nc)
	return c
}

// use makes nc the connection.
func (c *conn) use(nc net.Conn) {
	c.Conn = nc
	if f, ok := nc.(syscall.Conn); ok {
		if raw, err := f.SyscallConn(); err == nil {
			c.raw, c.tryRead, c.tryPeek, c.tryWrite = raw, c.readNow, c.peekNow, c.writeNow
			c.trySome = func(fd uintptr) { c.writeNow(fd) }
		}
	}
}

// cut closes the connection. Who reads or writes returns at once, and a pump
// finds its end.
func (c *conn) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.released >= 0 {
		_ = unix.Shutdown(c.released, unix.SHUT_RDWR)
		return
	}
	_ = c.Conn.Close()
}

// close is cut, by who owns the connection.
func (c *conn) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if c.released < 0 {
		_ = c.Conn.Close()
		return
	}
	_ = unix.Close(c.released)
	c.released = -1
}

// release takes the connection out of Go's hands, if it has not been already;
// false when that cannot be.
func (c *conn) release() (fd int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released >= 0 {
		return c.released, true
	}
	if c.ended {
		return -1, false
	}
	fd, ok = pump.Release(c.Conn)
	if ok {
		c.released = fd
	}
	return fd, ok
}

// adopt takes it back, if it was released.
func (c *conn) adopt() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released < 0 {
		return nil
	}
	nc, err := pump.Adopt(c.released)
	c.released = -1
	if err != nil {
		c.ended = true
		return err
	}
	c.use(nc)
	if c.ended {
		_ = nc.Close()
	}
	return nil
}

// giveBack returns the buffer; nothing of it may be used any more.
func (c *conn) giveBack() {
	if c.buffer != nil {
		c.link.buffers.put(c.buffer)
		c.buffer, c.unread = nil, nil
	}
}

// fill waits for the next bytes, once there are no unread ones. They stay
// valid until the next fill or giveBack.
func (c *conn) fill() error {
	if c.raw == nil {
		if c.buffer == nil {
			c.buffer = c.link.buffers.get()
		}
		n, err := c.Read(*c.buffer)
		c.unread = (*c.buffer)[:n]
		if n > 0 {
			return nil
		}
		return err
	}
	c.giveBack()
	if err := c.raw.Read(c.tryRead); err != nil {
		return err
	}
	if c.got > 0 {
		c.unread = (*c.buffer)[:c.got]
		return nil
	}
	c.giveBack()
	if c.failed != nil {
		return os.NewSyscallError("read", c.failed)
	}
	return io.EOF
}

// readNow reads what there is. It is called when the connection may be
// readable; false says that it was not.
func (c *conn) readNow(fd uintptr) (done bool) {
	if c.buffer == nil {
		c.buffer = c.link.buffers.get()
	}
	c.got, c.failed = socket.Read(fd, *c.buffer)
	if c.failed == syscall.EAGAIN {
		c.giveBack()
		return false
	}
	return true
}

// write sends pieces and takes what was sent off them.
func (c *conn) write(pieces *net.Buffers) (sent int64, err error) {
	if c.raw == nil {
		return pieces.WriteTo(c.Conn)
	}
	c.sending, c.sent, c.failed = *pieces, 0, nil
	err = c.raw.Write(c.tryWrite)
	*pieces, c.sending = c.sending, nil
	if err == nil && c.failed != nil {
		err = os.NewSyscallError("writev", c.failed)
	}
	return c.sent, err
}

// writeSome is write without waiting: what there is no room for stays in pieces.
func (c *conn) writeSome(pieces *net.Buffers) error {
	if c.raw == nil {
		return nil
	}
	c.sending, c.sent, c.failed = *pieces, 0, nil
	err := c.raw.Control(c.trySome)
	*pieces, c.sending = c.sending, nil
	if err == nil && c.failed != nil && c.failed != syscall.EAGAIN {
		err = os.NewSyscallError("writev", c.failed)
	}
	return err
}

// writeNow sends what there is room for; false says that something is left.
func (c *conn) writeNow(fd uintptr) (done bool) {
	for len(c.sending) > 0 {
		n, err := socket.Writev(fd, c.sending)
		if err != nil {
			c.failed = err
			return err != syscall.EAGAIN
		}
		c.sent += int64(n)
		c.sending = behind(c.sending, n)
	}
	c.failed = nil
	return true
}

// behind is what follows the first n bytes of pieces.
func behind(pieces net.Buffers, n int) net.Buffers {
	for len(pieces) > 0 && n >= len(pieces[0]) {
		n -= len(pieces[0])
		pieces = pieces[1:]
	}
	if n > 0 {
		pieces[0] = pieces[0][n:]
	}
	return pieces
}

// readable reports whether there is something to read within a moment.
func (c *conn) readable() bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	err := c.fill()
	_ = c.SetReadDeadline(time.Time{})
	return err == nil
}

// stirred reports whether an unused connection has become unusable: the engine
// has closed it, or has sent what nobody asked for, which the next request
// would take for its answer.
func (c *conn) stirred() bool {
	return c.raw != nil && (c.raw.Read(c.tryPeek) != nil || c.failed != syscall.EAGAIN)
}

func (c *conn) peekNow(fd uintptr) (done bool) {
	var one [1]byte
	c.got, c.failed = socket.Read(fd, one[:])
	return true
}
