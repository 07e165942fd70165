package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

// Figure 24: with 256 file descriptors and more clients than that, some are told
// 503, none of those served is cut, `warden status` answers, and all is well
// once the crowd has gone.
func TestFigureNoDescriptors(t *testing.T) {
	const crowdSize = 400
	w := startLimited(t, 256, append([]string{"--dp", "2", "--max-num-seqs", "256"}, quick...)...)
	c := w.newClient()
	var open calls
	var begun atomic.Int32
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for i := range crowdSize {
		open.wg.Go(func() {
			open.add(c.stream(ctx, fmt.Sprintf("crowd-%d", i), "go on", 200, func() { begun.Add(1) }))
		})
	}
	await(t, 30*time.Second, "the crowd is being served", func() bool { return begun.Load() > 60 })
	if out, code := w.runCommand("status"); code != 0 || !strings.Contains(out, "r0") {
		t.Errorf("status in the crowd: exit code %d\n%s", code, out)
	}
	served, refused := 0, 0
	for _, one := range open.wait() {
		switch {
		case one.complete():
			served++
		case one.code == http.StatusServiceUnavailable && strings.Contains(one.body, "too_many_connections"):
			refused++
		case one.code == 0: // closed without a word
			refused++
		default:
			t.Errorf("neither served nor refused: %s", one)
		}
	}
	t.Logf("%d served, %d refused", served, refused)
	if served < 60 || refused == 0 {
		t.Errorf("%d served, %d refused of %d", served, refused, crowdSize)
	}
	c.http.CloseIdleConnections()
	took := await(t, 10*time.Second, "an answer after the crowd", func() bool { return w.chat("after", "hello", false, 2).code == 200 })
	t.Logf("answers again %s after", took)
	s := w.poll("nothing is held", func(s control.Status) bool { return s.Totals.Held == 0 })
	for _, r := range s.Replicas {
		if r.Restarts != 0 || r.State != control.StateReady {
			t.Errorf("%s is %s after %d restarts", r.ID, r.State, r.Restarts)
		}
	}
}

// startLimited starts a warden that may open only so many files.
func startLimited(t *testing.T, files int, flags ...string) *running {
	t.Helper()
	home := newHome(t)
	cmd := upCommand(append([]string{"--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0"}, flags...)...)
	limited := exec.Command("sh", append([]string{"-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, files)}, cmd.Args...)...)
	limited.Env = environment(home)
	w := launchCommand(t, home, limited)
	w.waitFor(allReady)
	return w
}

// Figure 19: the disk is full, or the state directory cannot be written. Engines
// start, serve and end as ever, and a person is told once.
func TestFigureFullDisk(t *testing.T) {
	w := startOnTmpfs(t, "size=1m", func(dir string) {
		fillUp(t, filepath.Join(dir, "ballast"))
	})
	checkServesWithoutState(t, w)
}

func TestFigureReadOnlyState(t *testing.T) {
	w := startOnTmpfs(t, "size=1m", func(dir string) {
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
	})
	checkServesWithoutState(t, w)
}

// startOnTmpfs starts a warden whose state is on a small file system of its own,
// to which something has happened.
func startOnTmpfs(t *testing.T, options string, happen func(dir string)) *running {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	home := newHome(t)
	state := filepath.Join(home, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, options); err != nil {
		t.Skipf("cannot mount a tmpfs here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(state, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	happen(state)
	w := launchWith(t, home, []string{"XDG_STATE_HOME=" + state}, append([]string{"--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0", "--dp", "2"},
		"--", "--sim-load", "200ms", "--sim-fault", "log-flood=200")...)
	w.waitFor(allReady)
	return w
}

func fillUp(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	block := make([]byte, 4096)
	for err == nil {
		_, err = file.Write(block)
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkServesWithoutState(t *testing.T, w *running) {
	t.Helper()
	for i := range 20 {
		if a := w.chat(fmt.Sprint(i), "hello", i%2 == 0, 4); a.code != 200 || a.err != nil {
			t.Errorf("request %d: %d %v %s", i, a.code, a.err, a.body)
		}
	}
	r, _ := remote.FindReplica(w.waitFor(allReady), "r1")
	kill(t, r.PID) // a start needs no disk either
	w.readyAgain(r)
	if a := w.chat("again", "hello", false, 4); a.code != 200 {
		t.Errorf("after a restart: %d %v", a.code, a.err)
	}
	warnings := map[string]int{}
	for line := range strings.Lines(w.output.String()) {
		_, said, _ := strings.Cut(line, "msg=")
		if strings.Contains(line, "no space left") || strings.Contains(line, "read-only") || strings.Contains(line, "no such file") {
			what, _, _ := strings.Cut(said, " err=")
			what, _, _ = strings.Cut(what, " replica=")
			warnings[what]++
		}
	}
	t.Logf("warnings: %v", warnings)
	for what, n := range warnings {
		if n != 1 {
			t.Errorf("%d times %s", n, what)
		}
	}
	if len(warnings) == 0 || len(warnings) > 3 { // sessions, engine settings, and what the supervisor notes
		t.Errorf("warned of %d things", len(warnings))
	}
}
