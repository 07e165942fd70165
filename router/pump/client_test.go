package pump

import (
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// peer is a Client of the pump's.
type peer struct{ syscall.RawConn }

func client(t *testing.T, c net.Conn) peer {
	t.Helper()
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return peer{raw}
}

// That a client leaves is told, once, however it does, while its connection
// stays with Go; what it sends is no leaving.
func TestClientsLeaving(t *testing.T) {
	for name, leave := range map[string]func(*net.TCPConn) error{
		"closes":        (*net.TCPConn).Close,
		"sends no more": (*net.TCPConn).CloseWrite,
		"resets": func(c *net.TCPConn) error {
			_ = c.SetLinger(0)
			return c.Close()
		},
	} {
		t.Run(name, func(t *testing.T) {
			var p Pump
			defer p.Close()
			engine, toEngine := pair(t)
			here, there := dialled(t, "tcp")
			left := make(chan struct{}, 9)
			var got strings.Builder
			seen := make(chan struct{}, 1)
			read := collect(engine, &got, ".")
			ended := make(chan error, 1)
			go func() {
				ended <- p.Run(Work{FD: engine, Client: client(t, here), Left: func() { left <- struct{}{} }, Step: func(buffer []byte) bool {
					defer func() { seen <- struct{}{} }()
					return read(buffer)
				}})
			}()
			say(t, toEngine, "one ")
			<-seen
			if _, err := there.Write([]byte("the next request")); err != nil {
				t.Fatal(err)
			}
			say(t, toEngine, "two ")
			<-seen
			if len(left) != 0 {
				t.Error("a client that sends has left")
			}
			if err := leave(there.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			select {
			case <-left:
			case <-time.After(patience):
				t.Fatal("that the client left is not told")
			}
			say(t, toEngine, "three.") // the run goes on until its step ends it
			if err := in(t, ended); err != nil || got.String() != "one two three." {
				t.Errorf("%v, %q", err, got.String())
			}
			if len(left) != 0 {
				t.Error("it was told twice")
			}
		})
	}
}

// A client that has left before is told of as well, and one run's client can be
// the next one's. Nothing is told when no run is left.
func TestClientsOfRunsOneAfterAnother(t *testing.T) {
	var p Pump
	defer p.Close()
	engine, toEngine := pair(t)
	here, there := dialled(t, "tcp")
	c := client(t, here)
	for range 3 {
		say(t, toEngine, "x")
		if err := p.Run(Work{FD: engine, Client: c, Left: func() { t.Error("it has not left") }, Step: func(buffer []byte) bool {
			_, _ = unix.Read(engine, buffer)
			return false
		}}); err != nil {
			t.Fatal(err)
		}
	}
	_ = there.Close()
	left := make(chan struct{}, 9)
	for range 2 {
		ended := make(chan error, 1)
		go func() {
			ended <- p.Run(Work{FD: engine, Client: c, Left: func() { left <- struct{}{} }, Step: func(buffer []byte) bool {
				_, err := unix.Read(engine, buffer)
				return err == unix.EAGAIN
			}})
		}()
		select {
		case <-left:
		case <-time.After(patience):
			t.Fatal("that the client left is not told")
		}
		say(t, toEngine, "x")
		if err := in(t, ended); err != nil {
			t.Fatal(err)
		}
	}
	_ = here.Close()
	say(t, toEngine, "x.")
	var got strings.Builder
	closed := make(chan error, 1)
	go func() {
		closed <- p.Run(Work{FD: engine, Client: c, Left: func() {}, Step: collect(engine, &got, ".")})
	}()
	if err := in(t, closed); err != nil || got.String() != "x." {
		t.Errorf("with a client that this side has closed: %v, %q", err, got.String())
	}
}

// A client is watched without a run, one watch after another, and no longer than
// wanted.
func TestWatch(t *testing.T) {
	var p Pump
	defer p.Close()
	here, there := dialled(t, "tcp")
	c := client(t, here)
	for range 3 {
		p.Watch(c, func() { t.Error("it has not left") })()
	}
	left := make(chan struct{}, 9)
	stop := p.Watch(c, func() { left <- struct{}{} })
	if err := there.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(patience):
		t.Fatal("that the client left is not told")
	}
	stop()
	if len(p.runs) != 0 || len(left) != 0 {
		t.Errorf("%d runs are left, told %d times more", len(p.runs), len(left))
	}
	stop = p.Watch(c, func() {})
	p.Close()
	stop()
	p.Watch(c, func() { t.Error("a closed pump watches") })()
}
