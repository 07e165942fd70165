package process

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func shell(t *testing.T, dir, script string) *Process {
	t.Helper()
	p, err := Start(Command{Name: "program", Argv: []string{"/bin/sh", "-c", script}, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(0) })
	return p
}

// written waits until the program has written its file.
func written(t *testing.T, p *Process, file string) string {
	t.Helper()
	var text []byte
	err := p.Await(t.Context(), "wrote "+file, func(context.Context) (err error) {
		if text, err = os.ReadFile(file); err == nil && len(text) == 0 {
			err = errors.New("empty")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func TestStopEndsTheWholeGroup(t *testing.T) {
	dir := t.TempDir()
	p := shell(t, dir, `trap "" TERM; sleep 300 & echo $! > child; wait; wait`)
	child, err := strconv.Atoi(written(t, p, filepath.Join(dir, "child")))
	if err != nil {
		t.Fatal(err)
	}
	watch, err := unix.PidfdOpen(child, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	p.Stop(0)
	select {
	case <-p.Ended():
	default:
		t.Error("the program runs after Stop")
	}
	const limit = 10_000 // milliseconds
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(watch), Events: unix.POLLIN}}, limit); n != 1 {
		t.Errorf("the child %d of the program runs after Stop (%v)", child, err)
	}
}

func TestAwaitTellsOfAnEarlyEnd(t *testing.T) {
	p := shell(t, t.TempDir(), "echo the reason; exit 3")
	err := p.Await(t.Context(), "answered", func(context.Context) error { return errors.New("no") })
	if err == nil || !strings.Contains(err.Error(), "ended before it answered") || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("error %v", err)
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	p := shell(t, t.TempDir(), "sleep 300")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Await(ctx, "answered", func(context.Context) error { return errors.New("not yet") }); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestPinned(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(Command{Name: "p", Argv: []string{"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status > cpus; sleep 300"}, Dir: dir, CPUs: []int{0}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(0)
	if got := written(t, p, filepath.Join(dir, "cpus")); !strings.HasSuffix(got, "\t0") {
		t.Errorf("%q, want core 0 alone", got)
	}
}

func TestAnswers(t *testing.T) {
	status := http.StatusServiceUnavailable
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	defer s.Close()
	check := Answers(s.Client(), s.URL)
	if err := check(t.Context()); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("error %v", err)
	}
	status = http.StatusOK
	if err := check(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWhatCannotStart(t *testing.T) {
	if _, err := Start(Command{Name: "nothing", Argv: []string{"/nonexistent"}, Dir: t.TempDir()}); err == nil {
		t.Error("no error")
	}
}
