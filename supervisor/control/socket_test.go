package control

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
)

func listen(path string) (*Server, error) {
	return Listen(ServerOptions{Socket: path, Daemon: &fakeDaemon{}, Bus: events.NewBus(0)})
}

func TestSecondDaemonIsToldWhoRuns(t *testing.T) {
	s, _ := serve(t, ServerOptions{})
	_, err := listen(s.Socket())
	var running *AlreadyRunningError
	if !errors.As(err, &running) || running.PID != os.Getpid() || running.Version == nil {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "already running (pid ") || !strings.Contains(running.Hint(), "warden top") {
		t.Errorf("text %q, hint %q", err, running.Hint())
	}
	if _, err := os.Stat(s.Socket()); err != nil {
		t.Errorf("the running daemon lost its socket: %v", err)
	}
}

func TestSilentDaemonIsStillADaemon(t *testing.T) {
	path := socketPath(t)
	s, err := listen(path) // holds the lock, answers nothing
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = listen(path)
	var running *AlreadyRunningError
	if !errors.As(err, &running) || running.PID != os.Getpid() || running.Version != nil {
		t.Fatalf("got %#v", err)
	}
}

func TestStaleSocketIsRemoved(t *testing.T) {
	path := socketPath(t)
	leaveSocket(t, path)
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("socket mode %o", info.Mode().Perm())
	}
}

// leaveSocket makes the file that a daemon killed with SIGKILL leaves.
func leaveSocket(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
}

func TestForeignListenerIsLeftAlone(t *testing.T) {
	path := socketPath(t)
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() {
		defer close(accepted)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, err = listen(path)
	var running *AlreadyRunningError
	if !errors.As(err, &running) || running.PID != 0 {
		t.Errorf("got %v", err)
	}
	ln.Close()
	<-accepted
}

func TestPathsThatCannotBeSockets(t *testing.T) {
	file := socketPath(t)
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	long := "/tmp/" + strings.Repeat("x", maxSocketPath)
	for name, tt := range map[string]struct{ path, says, fix string }{
		"a file":        {file, file + " exists and is not a socket", "remove it"},
		"too long":      {long, long + " is 5 bytes too long", "XDG_RUNTIME_DIR"},
		"no such place": {file + ".d/s.sock", "no such file or directory", ""},
	} {
		s, err := listen(tt.path)
		if err == nil {
			s.Close()
			t.Errorf("%s: accepted", name)
			continue
		}
		var place *PlaceError
		if !strings.Contains(err.Error(), tt.says) || errors.As(err, &place) != (tt.fix != "") ||
			place != nil && !strings.Contains(place.Hint(), tt.fix) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var place *PlaceError
	if _, err := Dial(testContext(t), long); !errors.As(err, &place) || place.Over != 5 {
		t.Errorf("dialled with %v", err)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "precious" {
		t.Errorf("the file was touched: %q, %v", got, err)
	}
}

func TestDialErrors(t *testing.T) {
	path := socketPath(t)
	_, err := Dial(testContext(t), path)
	var none *NoDaemonError
	if !errors.As(err, &none) || !errors.Is(err, ErrNoDaemon) || none.Socket != path || none.Hint() == "" {
		t.Errorf("no socket: %v", err)
	}
	leaveSocket(t, path)
	if _, err = Dial(testContext(t), path); !errors.Is(err, ErrNoDaemon) {
		t.Errorf("stale socket: %v", err)
	}
	denied := &PermissionError{Socket: path, Owner: -1}
	if !errors.Is(denied, fs.ErrPermission) || denied.Hint() == "" || !strings.Contains(denied.Error(), path) {
		t.Errorf("permission error %q, hint %q", denied, denied.Hint())
	}
}

func TestDialGivesUpOnASilentDaemon(t *testing.T) {
	path := socketPath(t)
	s, err := listen(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := Dial(ctx, path); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrNoDaemon) {
		t.Errorf("got %v", err)
	}
}
