package keep

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/internal/testengine"
	"github.com/lm-warden/warden/supervisor/launch"
	"github.com/lm-warden/warden/supervisor/machine"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// These tests run real shims and real engine processes, so they live in real time. Every wait is for an event and has
// this limit, which only a failing test reaches.
const realLimit = 30 * time.Second

// box is a runtime directory in which one supervisor after another runs.
type box struct {
	t    *testing.T
	dir  string // short: socket paths are limited to 107 bytes
	args []string
}

func newBox(t *testing.T, engineArgs ...string) *box {
	t.Helper()
	dir, err := os.MkdirTemp("", "sup")
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, dir: dir, args: engineArgs}
	t.Cleanup(func() {
		if _, err := launch.Sweep(context.Background(), b.runtime()); err != nil {
			t.Error(err)
		}
		os.RemoveAll(dir)
	})
	return b
}

func (b *box) runtime() string         { return filepath.Join(b.dir, "run") }
func (b *box) socket(id string) string { return filepath.Join(b.dir, id+".sock") }

func (b *box) launcher() *launch.Launcher {
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	return launch.New(launch.Options{
		Argv: func() []string { return []string{self, testengine.ShimCommand} }, RuntimeDir: b.runtime(),
		LogDir: filepath.Join(b.dir, "log"), LockDir: filepath.Join(b.dir, "locks"),
		KillPatience: 200 * time.Millisecond,
	})
}

// house is a running supervisor in a box.
type house struct {
	*box
	s    *Supervisor
	bus  *events.Subscription
	done chan error
}

func (b *box) start(n int) *house {
	b.t.Helper()
	self, err := os.Executable()
	if err != nil {
		b.t.Fatal(err)
	}
	var list []supervisor.Spec
	for i := range n {
		id := fmt.Sprintf("r%d", i)
		list = append(list, supervisor.Spec{
			ID: supervisor.ReplicaID(id), Model: "m", Device: supervisor.DeviceSimulated, Address: "unix:" + b.socket(id),
			GPUUUIDs: []string{"GPU-" + id}, Args: slices.Concat([]string{"--socket", b.socket(id)}, b.args),
			Engine: textEngine{argv: []string{self, testengine.Command}},
		})
	}
	bus := events.NewBus(0)
	s, err := New(list, Options{
		Launcher: b.launcher(), Bus: bus, StateDir: filepath.Join(b.dir, "state"),
		Timing: Timing{Timing: machine.Timing{BackoffBase: time.Millisecond}, ProbeStarting: 10 * time.Millisecond, ProbeReady: 50 * time.Millisecond},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	h := &house{box: b, s: s, bus: bus.Subscribe(10000), done: make(chan error, 1)}
	go func() { h.done <- s.Run(b.t.Context()) }()
	return h
}

// await waits until the condition holds for a replica; it looks after each event.
func (h *house) await(what string, id supervisor.ReplicaID, holds func(supervisor.Replica) bool) supervisor.Replica {
	h.t.Helper()
	limit := time.After(realLimit)
	for {
		for _, r := range h.s.Snapshot() {
			if r.ID == id && holds(r) {
				return r
			}
		}
		select {
		case <-h.bus.C():
		case <-limit:
			h.t.Fatalf("%s is not %s after %s: %+v", id, what, realLimit, h.s.Snapshot())
		}
	}
}

func (h *house) ready(id supervisor.ReplicaID, generation uint64) supervisor.Replica {
	h.t.Helper()
	return h.await(fmt.Sprintf("ready in generation %d", generation), id, func(r supervisor.Replica) bool {
		return r.State == supervisor.Ready && r.Generation == generation
	})
}

func (h *house) shutdown() {
	h.t.Helper()
	h.s.Shutdown(0)
	h.ended()
	h.nothingLeft()
}

func (h *house) ended() {
	h.t.Helper()
	select {
	case err := <-h.done:
		if err != nil {
			h.t.Errorf("Run: %v", err)
		}
	case <-time.After(realLimit):
		h.t.Fatal("Run does not return")
	}
	h.bus.Close()
}

// left are the living processes that were started in the box.
func (b *box) left() []proc.Process {
	b.t.Helper()
	all, err := proc.All()
	if err != nil {
		b.t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(p proc.Process) bool {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		return err != nil || !p.Alive() || !strings.Contains(string(env), "WARDEN_RUNTIME="+b.runtime())
	})
}

func (b *box) nothingLeft() {
	b.t.Helper()
	if left := b.left(); len(left) > 0 {
		b.t.Errorf("left alive: %+v", left)
	}
}

func (b *box) shimState(id string) shim.State {
	b.t.Helper()
	s, err := shim.ReadState(filepath.Join(b.runtime(), id))
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func signal(t *testing.T, pid int, sig unix.Signal) {
	t.Helper()
	if err := unix.Kill(pid, sig); err != nil {
		t.Fatal(err)
	}
}

func TestRealReplicaComesBackWhateverIsKilled(t *testing.T) {
	b := newBox(t, "--children", "group,setsid,double")
	h := b.start(2)
	h.ready("r0", 1)
	other := h.ready("r1", 1)
	kills := []struct {
		name string
		kill func()
	}{
		{"engine's main process", func() { signal(t, b.shimState("r0").PID, unix.SIGKILL) }},
		{"shim", func() { signal(t, b.shimState("r0").ShimPID, unix.SIGKILL) }},
		{"shim that hangs, by order", func() {
			signal(t, b.shimState("r0").ShimPID, unix.SIGSTOP)
			if err := h.s.Kill("r0"); err != nil {
				t.Fatal(err)
			}
		}},
		{"by order", func() {
			if err := h.s.Kill("r0"); err != nil {
				t.Fatal(err)
			}
		}},
		{"engine exits with 0", func() {
			if err := testengine.Fault(t.Context(), b.socket("r0"), "exit=0"); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for i, k := range kills {
		k.kill()
		begun := time.Now()
		h.ready("r0", uint64(i+2))
		t.Logf("%s: serves again after %s", k.name, time.Since(begun))
		if n := len(b.left()); n != 2*4 {
			t.Errorf("%s: %d processes, want two engines with three helpers each", k.name, n)
		}
	}
	if now := h.ready("r1", 1); now.PID != other.PID || now.Restarts != 0 {
		t.Errorf("the other replica was restarted: %+v", now)
	}
	h.shutdown()
}

// Whoever cleans up the runtime directory takes the engine's socket too. The engine goes on listening where nobody finds
// it, and kept connections to it go on working: only a new one tells.
func TestRealEngineThatCannotBeReachedAnyMoreIsReplaced(t *testing.T) {
	b := newBox(t, "--children", "setsid")
	h := b.start(1)
	first := h.ready("r0", 1)
	for _, path := range []string{b.socket("r0"), b.runtime()} {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	r := h.ready("r0", 2)
	if want := "its socket " + b.socket("r0") + " was removed"; r.PID == first.PID || r.Diagnosis.Cause != want || r.Restarts != 1 {
		t.Errorf("%+v, want a new process because %q", r, want)
	}
	if n := len(b.left()); n != 2 {
		t.Errorf("%d processes, want one engine with its helper", n)
	}
	h.shutdown()
}

func TestRealEnginesOutliveTheirSupervisor(t *testing.T) {
	b := newBox(t, "--children", "setsid")
	h := b.start(2)
	first := [2]int{h.ready("r0", 1).PID, h.ready("r1", 1).PID}
	h.s.Detach()
	h.ended()
	if n := len(b.left()); n != 4 {
		t.Fatalf("%d processes after the supervisor went, want 4", n)
	}

	signal(t, b.shimState("r1").ShimPID, unix.SIGKILL) // one does not survive the time without a supervisor
	h = b.start(2)
	if r := h.ready("r0", 1); r.PID != first[0] || !r.Adopted {
		t.Errorf("not adopted: %+v", r)
	}
	if r := h.ready("r1", 2); r.PID == first[1] || r.Adopted {
		t.Errorf("a dead engine was adopted: %+v", r)
	}
	h.s.Detach()
	h.ended()

	b.args = append(b.args, "--load", "1ms") // another configuration: nothing matches any more
	h = b.start(1)
	if r := h.ready("r0", 2); r.PID == first[0] || r.Adopted {
		t.Errorf("adopted an engine with other arguments: %+v", r)
	}
	h.s.KillAll()
	h.ended()
	if words, err := launch.Sweep(t.Context(), b.runtime(), "r0", "r1"); err != nil || len(words) != 0 {
		t.Errorf("Sweep but r0 and r1 = %q, %v", words, err)
	}
	words, err := launch.Sweep(t.Context(), b.runtime())
	if err != nil || !slices.Equal(words, []string{"r1 of m"}) { // the second supervisor's, which the third did not know
		t.Errorf("Sweep = %q, %v", words, err)
	}
	b.nothingLeft()
}

func TestRealFailedStartIsExplained(t *testing.T) {
	b := newBox(t, "--say", "hello|my token is secret-token-value|fatal: no room for the cache", "--exit-at-once", "1")
	h := b.start(1)
	r := h.await("parked", "r0", func(r supervisor.Replica) bool { return r.State == supervisor.Parked })
	if r.Diagnosis.Cause != "no room for the cache" || r.LastExit == nil || r.LastExit.Code != 1 || r.Generation != 2 {
		t.Errorf("%+v", r)
	}
	var present, previous []string
	for l, err := range h.s.Logs(t.Context(), "r0", supervisor.LogQuery{Tail: 3}) {
		if err != nil {
			t.Fatal(err)
		}
		present = append(present, fmt.Sprintf("g%d %s", l.Generation, l.Text))
	}
	for l, err := range h.s.Logs(t.Context(), "r0", supervisor.LogQuery{Previous: true}) {
		if err != nil {
			t.Fatal(err)
		}
		previous = append(previous, fmt.Sprintf("g%d %s", l.Generation, l.Text))
	}
	want := []string{"g2 hello", "g2 my token is [hidden]", "g2 fatal: no room for the cache"}
	if !slices.Equal(present, want) {
		t.Errorf("log %q, want %q", present, want)
	}
	for i := range want {
		want[i] = strings.Replace(want[i], "g2", "g1", 1)
	}
	if !slices.Equal(previous, want) {
		t.Errorf("previous log %q, want %q", previous, want)
	}
	for _, err := range h.s.Logs(t.Context(), "r9", supervisor.LogQuery{}) {
		if !errors.Is(err, ErrUnknownReplica) {
			t.Errorf("log of an unknown replica: %v", err)
		}
	}
	h.shutdown()
}

func TestRealStartAbortedAtAnyMomentLeavesNothing(t *testing.T) {
	for _, at := range []time.Duration{0, 5 * time.Millisecond, 20 * time.Millisecond, 60 * time.Millisecond, 150 * time.Millisecond} {
		b := newBox(t, "--load", "100ms", "--children", "double", "--ignore-term")
		h := b.start(1)
		<-time.After(at) // the moment is the point of this test
		h.s.KillAll()
		h.ended()
		b.nothingLeft()
	}
}
