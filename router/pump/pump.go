// Package pump waits for many sockets on one goroutine and does what is to be
// done there itself, instead of waking another one.
//
// A proxy of token streams spends most of its own CPU time on being woken: Go's
// scheduler finds a thread for the goroutine of each event, which does one small
// read and one small write and waits again. Here one call of epoll_wait returns
// all sockets with something to read, and their steps run one after another.
//
// Its sockets must not be known to Go's network poller, which would be woken for
// each of their events as well: see Release.
package pump

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// BufferSize is the size of the buffer that steps read into, in bytes.
const BufferSize = 32 << 10

// ErrClosed is what Run returns when the Pump is closed.
var ErrClosed = errors.New("the pump is closed")

// Pump is one goroutine and its sockets. The zero value is ready: the goroutine
// begins with the first Run and ends with Close.
type Pump struct {
	mu      sync.Mutex
	closed  bool
	started bool
	epoll   int
	wake    int // an eventfd
	last    uint64
	runs    map[uint64]*run
	ended   chan struct{}
}

// Work is what a Pump does for one socket.
type Work struct {
	FD int
	// Step is called whenever FD can be read, or has reached its end, until it
	// returns false. Steps of all sockets run on one goroutine: they must not wait
	// for anything, and may use buffer only until they return.
	Step func(buffer []byte) (more bool)
	// Left is called when the peer of another connection, Client, has left or has
	// said that it will send no more. The same holds for it as for Step.
	Left   func()
	Client Client
}

// Client is a connection that may stay with Go's network poller: nobody reads
// from it meanwhile.
type Client interface {
	Control(f func(fd uintptr)) error
}

// run is one call of Run.
type run struct {
	Work
	over     chan struct{}
	err      error
	panicked *Panic
}

// Panic is what Run panics with when a Step did: where Run was called says
// nothing of it.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) String() string { return fmt.Sprint(p.Value) }

// Start makes the goroutine, if there is none yet. It takes two descriptors,
// which may not be there.
func (p *Pump) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready()
}

// Run does w until its Step returns false, whose panic is Run's, as a *Panic.
func (p *Pump) Run(w Work) error {
	r := &run{Work: w, over: make(chan struct{})}
	if _, err := p.add(r); err != nil {
		return err
	}
	<-r.over
	if r.panicked != nil {
		panic(r.panicked)
	}
	return r.err
}

// Watch calls left, as Work's, until stop is called; it may be under way then. It
// is for a caller that waits for client without Run.
func (p *Pump) Watch(client Client, left func()) (stop func()) {
	id, err := p.add(&run{Work: Work{FD: none, Client: client, Left: left}, over: make(chan struct{})})
	if err != nil {
		return func() {} // the Pump is closed, and what it was for ends
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.closed {
			return // and its epoll may be another's by now
		}
		_ = client.Control(func(fd uintptr) { _ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, int(fd), nil) })
		delete(p.runs, id)
	}
}

// none is the FD of a run that has but a Client.
const none = -1

func (p *Pump) add(r *run) (id uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.ready(); err != nil {
		return 0, err
	}
	p.last++
	if r.FD != none {
		if err := watch(p.epoll, r.FD, p.last, unix.EPOLLIN|unix.EPOLLRDHUP); err != nil {
			return 0, err
		}
	}
	p.runs[p.last] = r
	if r.Client == nil {
		return p.last, nil
	}
	// One that is closed already fails each write, too.
	_ = r.Client.Control(func(fd uintptr) {
		_ = watch(p.epoll, int(fd), p.last|ofClient, unix.EPOLLRDHUP|unix.EPOLLONESHOT)
	})
	return p.last, nil
}

// ofClient marks the ids of events of Clients.
const ofClient = 1 << 63

// watch adds fd to an epoll under an id; 0 is the eventfd.
func watch(epoll, fd int, id uint64, events uint32) error {
	e := unix.EpollEvent{Events: events}
	e.Fd, e.Pad = int32(id), int32(id>>32)
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(epoll, unix.EPOLL_CTL_ADD, fd, &e))
}

// ready makes the goroutine, if there is none yet. The lock is held.
func (p *Pump) ready() error {
	if p.closed {
		return ErrClosed
	}
	if p.started {
		return nil
	}
	return p.start()
}

// start makes the epoll and its goroutine.
func (p *Pump) start() (err error) {
	if p.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if p.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(p.epoll)
		return os.NewSyscallError("eventfd", err)
	}
	if err = watch(p.epoll, p.wake, 0, unix.EPOLLIN); err != nil {
		_, _ = unix.Close(p.epoll), unix.Close(p.wake)
		return err
	}
	p.runs, p.ended, p.started = map[uint64]*run{}, make(chan struct{}), true
	go p.loop()
	return nil
}

// batch is how many sockets one call of epoll_wait returns at most.
const batch = 128

func (p *Pump) loop() {
	defer close(p.ended)
	var events [batch]unix.EpollEvent
	buffer := make([]byte, BufferSize)
	for {
		n, err := unix.EpollWait(p.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			p.fail(os.NewSyscallError("epoll_wait", err))
			return
		}
		woke := false
		for _, e := range events[:max(n, 0)] {
			id := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if id == 0 {
				p.fail(ErrClosed)
				return
			}
			p.mu.Lock()
			r := p.runs[id&^ofClient]
			p.mu.Unlock()
			// A run ends on this goroutine alone, but of its two sockets both may be
			// in one batch.
			switch {
			case r == nil:
			case id&ofClient != 0:
				r.Left()
				woke = true
			case !r.once(buffer):
				p.remove(id, r)
				woke = true
			}
		}
		if woke {
			// Whom we woke waits in the queue of this thread's processor, which
			// epoll_wait would keep until the runtime's monitor sees it: 10 ms at
			// worst.
			runtime.Gosched()
		}
	}
}

// once makes one step.
func (r *run) once(buffer []byte) (more bool) {
	defer func() {
		if v := recover(); v != nil {
			r.panicked, more = &Panic{v, debug.Stack()}, false
		}
	}()
	return r.Step(buffer)
}

func (p *Pump) remove(id uint64, r *run) {
	_ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, r.FD, nil)
	if r.Client != nil {
		_ = r.Client.Control(func(fd uintptr) { _ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, int(fd), nil) })
	}
	p.mu.Lock()
	delete(p.runs, id)
	p.mu.Unlock()
	close(r.over)
}

// fail ends all runs, and the Pump.
func (p *Pump) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, r := range p.runs {
		r.err = err
		close(r.over)
	}
	p.runs = nil
	_, _ = unix.Close(p.epoll), unix.Close(p.wake)
}

// Close ends all runs with ErrClosed, and the goroutine. A second call does
// nothing.
func (p *Pump) Close() {
	p.mu.Lock()
	started, closed := p.started, p.closed
	p.closed = true
	if started && !closed {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(p.wake, one[:])
	}
	p.mu.Unlock()
	if started {
		<-p.ended
	}
}

// Release takes a connection's socket away from Go's network poller: conn is
// closed, and fd is a duplicate that is the caller's to close. ok is false, and
// conn untouched, for one that is no socket.
func Release(conn net.Conn) (fd int, ok bool) {
	file, ok := conn.(syscall.Conn)
	if !ok {
		return -1, false
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return -1, false
	}
	fd = -1
	err = raw.Control(func(under uintptr) {
		if copied, err := unix.FcntlInt(under, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			fd = copied
		}
	})
	if err != nil || fd < 0 {
		return -1, false
	}
	_ = conn.Close() // of one of two descriptors: the connection stays
	return fd, true
}

// Adopt gives a socket back to Go's network poller. fd is closed, also after an
// error.
func Adopt(fd int) (net.Conn, error) {
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	return net.FileConn(file)
}
