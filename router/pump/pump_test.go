package pump

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds what must happen at once.
const patience = 20 * time.Second

// pair is two connected sockets in non-blocking mode.
func pair(t *testing.T) (here, there int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = unix.Close(fds[0]), unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func say(t *testing.T, fd int, text string) {
	t.Helper()
	if _, err := unix.Write(fd, []byte(text)); err != nil {
		t.Error(err)
	}
}

// descriptors is what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// in waits for a call of Run.
func in(t *testing.T, ended <-chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatal("Run does not return")
		return nil
	}
}

// start calls Run on another goroutine; a panic comes out as an error.
func start(p *Pump, fd int, step func([]byte) bool) <-chan error {
	ended := make(chan error, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				ended <- fmt.Errorf("panic: %v", v)
			}
		}()
		ended <- p.Run(Work{FD: fd, Step: step})
	}()
	return ended
}

// collect is a step that reads until the other side has said enough.
func collect(fd int, got *strings.Builder, enough string) func([]byte) bool {
	return func(buffer []byte) bool {
		n, err := unix.Read(fd, buffer)
		if err == unix.EAGAIN {
			return true
		}
		got.Write(buffer[:max(n, 0)])
		return n > 0 && !strings.HasSuffix(got.String(), enough)
	}
}

// A socket's step is called for what was there before, and for each thing that
// comes, until it has had enough; what comes later is left in the socket, and
// the socket can be given to the pump again.
func TestStepsFollowWhatComes(t *testing.T) {
	var p Pump
	defer p.Close()
	here, there := pair(t)
	say(t, there, "before ")
	for _, round := range []string{"first.", "second."} {
		var got strings.Builder
		seen := make(chan struct{}, 1)
		read := collect(here, &got, ".")
		ended := start(&p, here, func(buffer []byte) bool {
			if len(buffer) != BufferSize {
				t.Errorf("a buffer of %d bytes", len(buffer))
			}
			more := read(buffer)
			if more && strings.HasSuffix(got.String(), " ") {
				seen <- struct{}{}
			}
			return more
		})
		if round == "second." {
			say(t, there, "between ")
		}
		<-seen
		say(t, there, round)
		if err := in(t, ended); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"first.": "before first.", "second.": "between second."}[round]
		if got.String() != want {
			t.Errorf("read %q, want %q", got.String(), want)
		}
	}
	say(t, there, "left")
	rest := make([]byte, 9)
	if n, err := unix.Read(here, rest); err != nil || string(rest[:n]) != "left" {
		t.Errorf("left in the socket: %q, %v", rest[:max(n, 0)], err)
	}
}

// The end of a socket is something to read, whichever side makes it.
func TestEndsAreRead(t *testing.T) {
	for name, end := range map[string]func(here, there int) error{
		"the other side closes":         func(_, there int) error { return unix.Shutdown(there, unix.SHUT_RDWR) },
		"the other side writes no more": func(_, there int) error { return unix.Shutdown(there, unix.SHUT_WR) },
		"this side is shut down":        func(here, _ int) error { return unix.Shutdown(here, unix.SHUT_RDWR) },
	} {
		t.Run(name, func(t *testing.T) {
			var p Pump
			defer p.Close()
			here, there := pair(t)
			began := make(chan struct{}, 1)
			said := 0
			ended := start(&p, here, func(buffer []byte) bool {
				n, err := unix.Read(here, buffer)
				if n > 0 {
					said += n
					began <- struct{}{}
				}
				return err != nil || n > 0
			})
			say(t, there, "x")
			<-began // it waits in the pump, not on its way there
			if err := end(here, there); err != nil {
				t.Fatal(err)
			}
			if err := in(t, ended); err != nil || said != 1 {
				t.Errorf("%v after %d bytes", err, said)
			}
		})
	}
}

// A panic in a step is its Run's, and nobody else's.
func TestPanicIsTheRunsOwn(t *testing.T) {
	var p Pump
	defer p.Close()
	bad, toBad := pair(t)
	good, toGood := pair(t)
	var got strings.Builder
	others := start(&p, good, collect(good, &got, "."))
	ended := start(&p, bad, func([]byte) bool { panic("in a step") })
	say(t, toGood, "one ")
	say(t, toBad, "x")
	if err := in(t, ended); err == nil || err.Error() != "panic: in a step" {
		t.Errorf("Run ended with %v", err)
	}
	say(t, toGood, "two.")
	if err := in(t, others); err != nil || got.String() != "one two." {
		t.Errorf("the other: %v, %q", err, got.String())
	}
	// Its socket is out of the pump.
	got.Reset()
	again := start(&p, bad, collect(bad, &got, "x"))
	if err := in(t, again); err != nil || got.String() != "x" {
		t.Errorf("again: %v, %q", err, got.String())
	}
}

// More sockets than one wait returns: each gets its own bytes in their order.
// That steps run one after another is seen by the race detector: they count
// without a lock.
func TestManySockets(t *testing.T) {
	const sockets, rounds = 3 * batch, 20
	var p Pump
	defer p.Close()
	steps := 0
	var writers sync.WaitGroup
	var ended [sockets]<-chan error
	var got [sockets]strings.Builder
	for i := range sockets {
		here, there := pair(t)
		read := collect(here, &got[i], ".")
		ended[i] = start(&p, here, func(buffer []byte) bool {
			steps++
			return read(buffer)
		})
		writers.Go(func() {
			for r := range rounds {
				say(t, there, fmt.Sprintf("%d:%d ", i, r))
			}
			say(t, there, ".")
		})
	}
	writers.Wait()
	for i := range sockets {
		if err := in(t, ended[i]); err != nil {
			t.Fatal(err)
		}
		var want strings.Builder
		for r := range rounds {
			fmt.Fprintf(&want, "%d:%d ", i, r)
		}
		if got[i].String() != want.String()+"." {
			t.Errorf("socket %d read %q", i, got[i].String())
		}
	}
	if steps < sockets {
		t.Errorf("%d steps for %d sockets", steps, sockets)
	}
}

// Close ends all runs, also while steps are made, and gives back what the pump
// took; nothing runs on a closed pump.
func TestClose(t *testing.T) {
	before := descriptors(t)
	var p Pump
	var ended []<-chan error
	for i := range 2 * batch {
		here, there := pair(t)
		began := make(chan struct{}, 1)
		ended = append(ended, start(&p, here, func(buffer []byte) bool {
			if i%2 == 0 {
				_, _ = unix.Read(here, buffer)
			} // the others always have something to read
			select {
			case began <- struct{}{}:
			default:
			}
			return true
		}))
		say(t, there, "x")
		<-began
	}
	p.Close()
	p.Close()
	for _, e := range ended {
		if err := in(t, e); !errors.Is(err, ErrClosed) {
			t.Errorf("a run ended with %v", err)
		}
	}
	here, there := pair(t)
	say(t, there, "x")
	if err := p.Run(Work{FD: here, Step: func([]byte) bool { t.Error("a step"); return false }}); !errors.Is(err, ErrClosed) {
		t.Errorf("a run on a closed pump: %v", err)
	}
	if now := descriptors(t); now != before+2*(2*batch+1) {
		t.Errorf("%d descriptors, and %d sockets of the test, became %d", before, 2*(2*batch+1), now)
	}
	var unused Pump
	unused.Close()
	if err := unused.Run(Work{FD: here}); !errors.Is(err, ErrClosed) {
		t.Errorf("a run on a pump that was closed before its first: %v", err)
	}
}

// Many may close at a time, and while others begin.
func TestCloseWhileOthersBegin(t *testing.T) {
	for range 50 {
		var p Pump
		var all sync.WaitGroup
		for i := range 8 {
			here, there := pair(t)
			say(t, there, "x")
			all.Go(func() {
				if i%4 == 3 {
					p.Close()
					return
				}
				err := p.Run(Work{FD: here, Step: func(buffer []byte) bool { _, _ = unix.Read(here, buffer); return i%2 == 0 }})
				if err != nil && !errors.Is(err, ErrClosed) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		p.Close()
	}
}

func TestWhatCannotBeWaitedFor(t *testing.T) {
	var p Pump
	defer p.Close()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, fd := range map[string]int{"a number that is no descriptor": 1 << 20, "a file": int(file.Fd())} {
		if err := p.Run(Work{FD: fd, Step: func([]byte) bool { return false }}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	here, there := pair(t)
	say(t, there, "x.")
	var got strings.Builder
	if err := in(t, start(&p, here, collect(here, &got, "."))); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
