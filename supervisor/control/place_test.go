package control

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor/events"
)

// reach dials until somebody answers.
func reach(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	for {
		c, err := Dial(ctx, path)
		if err == nil {
			c.Close()
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("nobody answers any more: %v", err)
		}
	}
}

func TestRemovedSocketComesBack(t *testing.T) {
	for name, remove := range map[string]func(path string) error{
		"the socket":                 os.Remove,
		"the directory":              func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"the socket, and once again": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := serve(t, ServerOptions{lookEach: time.Millisecond})
			for range 1 + strings.Count(name, "again") {
				if err := remove(s.Socket()); err != nil {
					t.Fatal(err)
				}
				reach(testContext(t), t, s.Socket())
			}
			if got := holder(s.Socket()); got != os.Getpid() {
				t.Errorf("the lock is held by %d", got)
			}
			if _, err := listen(s.Socket()); err == nil {
				t.Error("a second daemon could start")
			}
			s.Close()
			if _, err := os.Lstat(s.Socket()); err == nil {
				t.Error("the socket outlives its daemon")
			}
			second, err := listen(s.Socket())
			if err != nil {
				t.Fatalf("nobody can follow: %v", err)
			}
			second.Close()
		})
	}
}

func TestForeignFileInPlaceOfTheSocketIsLeftAlone(t *testing.T) {
	path := socketPath(t)
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("precious"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if renewed, err := s.place.renew(path); renewed || err != nil {
		t.Errorf("%v, %v", renewed, err)
	}
}

func TestLostSocketIsNotALostDaemon(t *testing.T) {
	path := socketPath(t)
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = dial(testContext(t), path, 20*time.Millisecond)
	var lost *SilentError
	if !errors.As(err, &lost) || !lost.Lost || lost.PID != os.Getpid() || errors.Is(err, ErrNoDaemon) {
		t.Errorf("got %#v", err)
	}
	s.Close()
	if _, err = Dial(testContext(t), path); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("after its end: %v", err)
	}
}

func TestSilentDaemonIsNamed(t *testing.T) {
	path := socketPath(t)
	s, err := listen(path) // accepts, answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = dial(testContext(t), path, 20*time.Millisecond)
	var silent *SilentError
	if !errors.As(err, &silent) || silent.Lost || silent.PID != os.Getpid() || silent.Stopped {
		t.Errorf("got %#v", err)
	}
}

func TestWaysOutOfSilence(t *testing.T) {
	for _, test := range []struct {
		err        SilentError
		text, hint string
	}{
		{SilentError{PID: 7, Waited: 5 * time.Second, Socket: "s"}, "the warden with pid 7 has not answered on s for 5s", "`kill -9 7`"},
		{SilentError{PID: 7, Stopped: true, Socket: "s"}, "is stopped by a signal", "`kill -CONT 7`"},
		{SilentError{PID: 7, Lost: true, Socket: "s"}, "nobody listens on s", "`kill 7`"},
		{SilentError{Socket: "s"}, "the warden has not answered", "`warden doctor`"},
	} {
		if !strings.Contains(test.err.Error(), test.text) || !strings.Contains(test.err.Hint(), test.hint) {
			t.Errorf("%q, fix %q", &test.err, test.err.Hint())
		}
	}
}

// A daemon that ends or hands over closes connections it has not looked at yet.
func TestClientOfAClosingDaemonDialsAgain(t *testing.T) {
	path := socketPath(t)
	first, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan error, 1)
	go func() {
		c, err := Dial(testContext(t), path)
		if err == nil {
			c.Close()
		}
		found <- err
	}()
	conn, err := first.place.listener().Accept() // and never answered
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	serving := make(chan error, 1)
	go func() { serving <- first.Serve(testContext(t)) }()
	if err := <-found; err != nil {
		t.Error(err)
	}
	first.Close()
	if err := <-serving; err != nil {
		t.Error(err)
	}
}

// While one daemon takes over from another nobody listens for a moment, which is not the end of the daemon.
func TestHandedOverLockStaysHeld(t *testing.T) {
	path := socketPath(t)
	first, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := unix.FcntlInt(first.Lock().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := first.CloseFor(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if s, err := listen(path); err == nil {
		s.Close()
		t.Error("a third daemon came between")
	}
	found := make(chan error, 1)
	go func() {
		c, err := Dial(testContext(t), path)
		if err == nil {
			c.Close()
		}
		found <- err
	}()
	serve(t, ServerOptions{Socket: path, Lock: os.NewFile(uintptr(inherited), "lock")})
	if err := <-found; err != nil {
		t.Errorf("a client that came between: %v", err)
	}
	if got := holder(path); got != os.Getpid() {
		t.Errorf("the lock is held by %d", got)
	}
}

func TestInheritedLockOfAnotherSocketIsNoLock(t *testing.T) {
	other, err := os.Create(socketPath(t) + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	path := socketPath(t)
	s, err := Listen(ServerOptions{Socket: path, Daemon: &fakeDaemon{}, Bus: events.NewBus(0), Lock: other})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := holder(path); got != os.Getpid() {
		t.Errorf("the lock is held by %d", got)
	}
	if other.Close() == nil {
		t.Error("the file was left open")
	}
}
