package launch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/internal/testengine"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// TestMain lets the test binary be a shim and an engine as well.
func TestMain(m *testing.M) { testengine.TestMain(m, shim.Main) }

// limit is for events of real processes; only a failing test reaches it.
const limit = 30 * time.Second

// yard is a directory in which engines are started.
type yard struct {
	t    *testing.T
	dir  string // short: socket paths are limited to 107 bytes
	self string
	l    *Launcher
}

func newYard(t *testing.T) *yard {
	t.Helper()
	dir, err := os.MkdirTemp("", "launch")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	y := &yard{t: t, dir: dir, self: self}
	y.l = New(Options{
		Argv: func() []string { return []string{self, testengine.ShimCommand} }, RuntimeDir: filepath.Join(dir, "run"), LogDir: filepath.Join(dir, "log"),
		LockDir: filepath.Join(dir, "locks"), KillPatience: 200 * time.Millisecond,
	})
	t.Cleanup(func() {
		if _, err := Sweep(context.Background(), y.l.opts.RuntimeDir); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return y
}

func (y *yard) order(generation uint64, args ...string) supervisor.Launch {
	return supervisor.Launch{
		ID: "r0", Model: "m", Generation: generation, Address: "unix:" + filepath.Join(y.dir, "r0.sock"), GPUUUIDs: []string{"GPU-0"},
		Command: supervisor.Command{Argv: slices.Concat([]string{y.self, testengine.Command}, args), Env: []string{"PATH=/usr/bin:/bin"}},
	}
}

func (y *yard) launch(l supervisor.Launch) supervisor.Process {
	y.t.Helper()
	p, err := y.l.Launch(y.t.Context(), l)
	if err != nil {
		y.t.Fatal(err)
	}
	return p
}

// await returns the first event of the kind, and what came before it.
func (y *yard) await(p supervisor.Process, kind supervisor.ProcessEventKind) (supervisor.ProcessEvent, []supervisor.ProcessEvent) {
	y.t.Helper()
	var before []supervisor.ProcessEvent
	late := time.After(limit)
	for {
		select {
		case e, more := <-p.Events():
			if !more {
				y.t.Fatalf("ended before an event of kind %d: %+v", kind, before)
			}
			if e.Kind == kind {
				return e, before
			}
			before = append(before, e)
		case <-late:
			y.t.Fatalf("no event of kind %d after %s: %+v", kind, limit, before)
		}
	}
}

func (y *yard) ended(p supervisor.Process) {
	y.t.Helper()
	y.await(p, supervisor.EngineGone)
	if _, more := <-p.Events(); more {
		y.t.Error("an event after the last")
	}
}

// nothingLeft fails the test when a process that was started in the replica's directory lives.
func (y *yard) nothingLeft() {
	y.t.Helper()
	left, err := proc.Living(proc.Tree{Mark: "WARDEN_RUNTIME=" + filepath.Join(y.l.opts.RuntimeDir, "r0")})
	if err != nil || len(left) > 0 {
		y.t.Errorf("left alive: %+v, %v", left, err)
	}
}

// stopShim returns when the shim is stopped, which takes its threads a moment.
func (y *yard) stopShim() {
	y.t.Helper()
	state, err := shim.ReadState(filepath.Join(y.l.opts.RuntimeDir, "r0"))
	if err != nil {
		y.t.Fatal(err)
	}
	if err := unix.Kill(state.ShimPID, unix.SIGSTOP); err != nil {
		y.t.Fatal(err)
	}
	var status unix.WaitStatus
	if _, err := unix.Wait4(state.ShimPID, &status, unix.WUNTRACED, nil); err != nil || !status.Stopped() {
		y.t.Fatalf("the shim is not stopped: %v, status %#x", err, status)
	}
}

func TestLinesAndExitThenGone(t *testing.T) {
	y := newYard(t)
	p := y.launch(y.order(3, "--say", "one|two", "--exit-at-once", "7"))
	gone, before := y.await(p, supervisor.EngineGone)
	var lines []string
	exits := 0
	for _, e := range before {
		switch e.Kind {
		case supervisor.EngineExited: // before the lines, when it was quicker than the connection to its shim
			exits++
		default:
			lines = append(lines, e.Line.Text)
			if e.Line.Generation != 3 {
				t.Errorf("%+v, want generation 3", e.Line)
			}
		}
	}
	if want := []string{"one", "two"}; !slices.Equal(lines, want) || exits != 1 || gone.Exit.Code != 7 {
		t.Errorf("%q, %d exits, %+v", lines, exits, gone)
	}
	if _, more := <-p.Events(); more {
		t.Error("an event after the last")
	}
	lines = nil
	for l, err := range y.l.Logs(t.Context(), "r0", supervisor.LogQuery{Tail: 1}) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, l.Text)
	}
	if want := []string{"two"}; !slices.Equal(lines, want) {
		t.Errorf("log %q", lines)
	}
}

func TestWhatIsAdopted(t *testing.T) {
	y := newYard(t)
	l := y.order(1, "--ignore-term")
	if _, err := y.l.Adopt(t.Context(), l); !errors.Is(err, supervisor.ErrNothingToAdopt) {
		t.Fatalf("nothing runs: %v", err)
	}
	p := y.launch(l)
	pid := p.Info().PID
	p.Close()
	p, err := y.l.Adopt(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Info(); got.PID != pid || got.Generation != 1 {
		t.Errorf("%+v, want pid %d", got, pid)
	}
	p.Close()
	if _, err := y.l.Adopt(t.Context(), y.order(1)); !errors.Is(err, supervisor.ErrNothingToAdopt) {
		t.Errorf("other arguments: %v", err)
	}
	y.nothingLeft()
}

// A shim that hangs does not carry out a kill, so it is carried out without the shim.
func TestKillDoesNotNeedTheShim(t *testing.T) {
	y := newYard(t)
	p := y.launch(y.order(1))
	y.stopShim()
	p.Kill()
	y.ended(p)
	y.nothingLeft()
}

// One that answers nobody is not given the time that a kill may take.
func TestKillDoesNotWaitLongForAStoppedShim(t *testing.T) {
	y := newYard(t)
	y.l.opts.KillPatience = 10 * limit
	p := y.launch(y.order(1))
	y.stopShim()
	p.Kill()
	y.ended(p)
	y.nothingLeft()
}

func TestSweepNowKills(t *testing.T) {
	for _, stop := range []bool{false, true} {
		y := newYard(t)
		p := y.launch(y.order(1, "--ignore-term"))
		p.Close()
		if stop {
			y.stopShim()
		}
		begun := time.Now()
		ended, err := SweepNow(t.Context(), y.l.opts.RuntimeDir)
		if took := time.Since(begun); err != nil || len(ended) != 1 || took > shim.GreetLimit+2*time.Second {
			t.Errorf("shim stopped %t: ended %q after %s: %v", stop, ended, took, err)
		}
		y.nothingLeft()
	}
}

// The runtime directory may be cleaned up, and the shim die after that: what has left the tree is found all the same.
func TestNothingIsLeftWithoutTheStateFile(t *testing.T) {
	y := newYard(t)
	p := y.launch(y.order(1, "--children", "setsid,double", "--ignore-term"))
	state, err := shim.ReadState(filepath.Join(y.l.opts.RuntimeDir, "r0"))
	if err != nil {
		t.Fatal(err)
	}
	y.await(p, supervisor.EngineLine)
	if err := os.RemoveAll(y.l.opts.RuntimeDir); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(state.ShimPID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	y.ended(p)
	y.nothingLeft()
}

func TestAShimThatCannotStart(t *testing.T) {
	y := newYard(t)
	program := filepath.Join(y.dir, "none")
	y.l.opts.Argv = func() []string { return []string{program} }
	if _, err := y.l.Launch(t.Context(), y.order(1)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: %v", err)
	}
	program = "/bin/false" // and it is asked for at each start
	if _, err := y.l.Launch(t.Context(), y.order(1)); err == nil || errors.Is(err, os.ErrNotExist) {
		t.Errorf("a program that is no shim: %v", err)
	}
}
