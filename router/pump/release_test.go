package pump

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// dialled is a connection over a network, and its other side.
func dialled(t *testing.T, network string) (here, there net.Conn) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial(network, l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = here.Close(), there.Close() })
	return here, there
}

// A connection that is released, pumped and adopted again is the same one:
// nothing on its way is lost, its waits can be bounded and ended, and no
// descriptor is left over.
func TestReleaseAndAdopt(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			var p Pump
			defer p.Close()
			here, there := dialled(t, network)
			before := descriptors(t)
			local, remote := here.LocalAddr().String(), here.RemoteAddr().String()
			for round := range 5 {
				if _, err := io.WriteString(there, "before "); err != nil {
					t.Fatal(err)
				}
				old := here
				fd, ok := Release(here)
				if !ok {
					t.Fatal("not released")
				}
				if _, err := old.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
					t.Fatalf("reading the old connection: %v", err)
				}
				var got strings.Builder
				ended := start(&p, fd, collect(fd, &got, "."))
				if _, err := io.WriteString(there, "meanwhile."); err != nil {
					t.Fatal(err)
				}
				if err := in(t, ended); err != nil || got.String() != "before meanwhile." {
					t.Fatalf("pumped %q, %v", got.String(), err)
				}
				if _, err := io.WriteString(there, "after"); err != nil {
					t.Fatal(err)
				}
				var err error
				if here, err = Adopt(fd); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = here.Close() })
				rest := make([]byte, len("after"))
				if _, err := io.ReadFull(here, rest); err != nil || string(rest) != "after" {
					t.Fatalf("round %d: adopted, it reads %q, %v", round, rest, err)
				}
			}
			if here.LocalAddr().String() != local || here.RemoteAddr().String() != remote {
				t.Errorf("from %v to %v, was from %s to %s", here.LocalAddr(), here.RemoteAddr(), local, remote)
			}
			if now := descriptors(t); now > before+2 { // the pump's own
				t.Errorf("%d descriptors became %d", before, now)
			}
			_ = here.SetReadDeadline(time.Now().Add(time.Millisecond))
			if _, err := here.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a wait with a deadline ended with %v", err)
			}
			_ = here.SetReadDeadline(time.Time{})
			ended := make(chan error, 1)
			go func() {
				_, err := here.Read(make([]byte, 1))
				ended <- err
			}()
			_ = here.Close()
			if err := in(t, ended); err == nil {
				t.Error("a closed connection was read")
			}
			_ = there.SetReadDeadline(time.Now().Add(patience))
			if n, err := there.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("the other side read %d bytes, %v", n, err)
			}
		})
	}
}

// Of a connection that ended while it was in the pump, the end is still there
// to be read.
func TestAdoptWhatHasEnded(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		here, there := dialled(t, network)
		fd, ok := Release(here)
		if !ok {
			t.Fatal("not released")
		}
		_ = there.Close()
		_ = unix.Shutdown(fd, unix.SHUT_RDWR)
		c, err := Adopt(fd)
		if err != nil {
			t.Fatalf("%s: %v", network, err)
		}
		if _, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: %v", network, err)
		}
		_ = c.Close()
	}
}

func TestWhatIsNoSocket(t *testing.T) {
	here, there := net.Pipe()
	if _, ok := Release(here); ok {
		t.Error("a pipe in memory was released")
	}
	go func() { _, _ = there.Write([]byte("x")) }()
	if _, err := io.ReadFull(here, make([]byte, 1)); err != nil {
		t.Errorf("it is no longer whole: %v", err)
	}
	closed, _ := dialled(t, "tcp")
	_ = closed.Close()
	if _, ok := Release(closed); ok {
		t.Error("a closed connection was released")
	}
	before := descriptors(t)
	fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Adopt(fd); err == nil {
		t.Error("a device was adopted")
	}
	if now := descriptors(t); now != before {
		t.Errorf("%d descriptors became %d", before, now)
	}
}
