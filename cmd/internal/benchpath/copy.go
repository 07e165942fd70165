package benchpath

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/proxies"
)

// copyName is the floor below which no proxy can go that reads what an engine
// sends and writes it to a client: two system calls an event, and nothing else.
const copyName = "bare copy"

// bareCopy is this program as that proxy. Each connection of a client gets one of
// its own to the next engine; HTTP is not looked at.
func bareCopy(self string, engines []string) proxies.Peer {
	return proxies.Peer{Program: self, Argv: func(_ proxies.Home, program, host, port string) ([]string, error) {
		return append([]string{program, "copy", "--listen", net.JoinHostPort(host, port)}, engines...), nil
	}}
}

// Copy is `bench-path copy --listen ADDRESS unix:/PATH ...`. It ends with an
// error or by a signal.
func Copy(args []string) error {
	flags := flag.NewFlagSet("copy", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "the `address` to listen on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("copy: name an engine, unix:/PATH")
	}
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	c := &copier{engines: flags.Args(), listener: int(file.Fd()), other: map[int32]int{}}
	runtime.LockOSThread()
	return c.run()
}

// copier copies between pairs of sockets on one thread.
type copier struct {
	engines  []string
	next     int
	listener int
	epoll    int
	other    map[int32]int // of each socket
	buffer   [16 << 10]byte
}

func (c *copier) run() (err error) {
	if c.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create", err)
	}
	if err := errors.Join(unix.SetNonblock(c.listener, true), c.watch(c.listener)); err != nil {
		return err
	}
	var events [128]unix.EpollEvent
	for {
		n, err := unix.EpollWait(c.epoll, events[:], -1)
		if err != nil && err != unix.EINTR {
			return os.NewSyscallError("epoll_wait", err)
		}
		for _, e := range events[:max(n, 0)] {
			if e.Fd == int32(c.listener) {
				if err := c.accept(); err != nil {
					return err
				}
				continue
			}
			if to, ok := c.other[e.Fd]; ok && !c.pass(int(e.Fd), to) {
				c.end(int(e.Fd), to)
			}
		}
	}
}

func (c *copier) watch(fd int) error {
	e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(c.epoll, unix.EPOLL_CTL_ADD, fd, &e))
}

// accept takes one client and connects it to the next engine.
func (c *copier) accept() error {
	client, _, err := unix.Accept4(c.listener, unix.SOCK_CLOEXEC)
	if err != nil {
		return nil // it has gone again
	}
	path, ok := strings.CutPrefix(c.engines[c.next%len(c.engines)], "unix:")
	if !ok {
		return fmt.Errorf("copy: engine %q is not unix:/PATH", c.engines[c.next%len(c.engines)])
	}
	c.next++
	engine, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(engine, &unix.SockaddrUnix{Name: path}); err != nil {
		return os.NewSyscallError("connect", err)
	}
	c.other[int32(client)], c.other[int32(engine)] = engine, client
	_ = unix.SetsockoptInt(client, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
	return errors.Join(c.watch(client), c.watch(engine))
}

// pass copies what has come; writes wait, since these sockets may.
func (c *copier) pass(from, to int) bool {
	n, err := unix.Read(from, c.buffer[:])
	for left := c.buffer[:max(n, 0)]; len(left) > 0 && err == nil; {
		var sent int
		sent, err = unix.Write(to, left)
		left = left[max(sent, 0):]
	}
	return n > 0 && err == nil
}

func (c *copier) end(one, other int) {
	delete(c.other, int32(one))
	delete(c.other, int32(other))
	_, _ = unix.Close(one), unix.Close(other)
}
