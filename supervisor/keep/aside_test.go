package keep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/ledger"
	"github.com/lm-warden/warden/supervisor/machine"
)

// A driver upgraded under running engines: they go on, nothing is started or
// ended, and starts go on by themselves afterwards.
func TestHoldStopsStartsAndNothingElse(t *testing.T) {
	const why = "driver mismatch; reboot"
	var held atomic.Bool
	hold := func(context.Context, []string) string {
		if held.Load() {
			return why
		}
		return ""
	}
	inBubble(t, 2, func(w *world, o *Options) { o.Hold, w.load = hold, 100*time.Millisecond }, func(f *fixture) {
		f.reach(1, supervisor.Ready, time.Minute)
		held.Store(true)
		f.sleep(10 * time.Minute)
		if f.replica(0).State != supervisor.Ready || f.replica(1).State != supervisor.Ready || f.w.starts() != 2 {
			t.Fatalf("a hold touched healthy engines: %s %s, %d starts", f.replica(0).State, f.replica(1).State, f.w.starts())
		}
		if err := f.s.Restart("r0", 0); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), why) {
			t.Errorf("an ordered restart that could not come back: %v", err)
		}
		f.process(1).die(supervisor.Exit{Code: 1})
		f.reach(1, supervisor.WaitingGPU, 5*time.Second)
		f.sleep(time.Hour)
		if r := f.replica(1); r.State != supervisor.WaitingGPU || r.Note != why || f.w.starts() != 2 {
			t.Errorf("after an hour: %s %q, %d starts", r.State, r.Note, f.w.starts())
		}
		held.Store(false)
		if took := f.reach(1, supervisor.Starting, time.Minute); took > 2*time.Second {
			t.Errorf("started %s after the hold ended", took)
		}
		if note := f.replica(1).Note; note != "" {
			t.Errorf("note %q remains", note)
		}
		f.reach(1, supervisor.Ready, time.Second)
	})
}

// The time limit of the memory gate counts from the end of a hold, and readings from before it do not count.
func TestGateStartsAnewAfterAHold(t *testing.T) {
	var free atomic.Int64
	var held atomic.Bool
	inBubble(t, 1, func(w *world, o *Options) {
		w.load = 100 * time.Millisecond
		o.GPUFree = func(context.Context, []string) (uint64, bool) { return uint64(free.Load()), true }
		o.Hold = func(context.Context, []string) string {
			if held.Load() {
				return "held"
			}
			return ""
		}
		free.Store(15 << 30)
	}, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Minute)
		held.Store(true)
		free.Store(2 << 30)
		f.process(0).die(supervisor.Exit{Code: 1})
		f.reach(0, supervisor.WaitingGPU, 5*time.Second)
		f.sleep(50 * time.Second)
		held.Store(false)
		if took := f.reach(0, supervisor.Starting, 2*time.Minute); took < 58*time.Second || took > 62*time.Second {
			t.Errorf("gave up on the memory %s after the hold, want its whole limit", took)
		}
	})
}

func TestSetAsideCostsOneReplica(t *testing.T) {
	var held atomic.Int64
	work := func(id supervisor.ReplicaID) supervisor.Work {
		if id != "r1" {
			return supervisor.Work{}
		}
		return supervisor.Work{Held: int(held.Load()), LastByte: time.Now()}
	}
	inBubble(t, 3, func(w *world, o *Options) { o.Work, w.load = work, 100*time.Millisecond }, func(f *fixture) {
		f.reach(2, supervisor.Ready, time.Minute)
		held.Store(1)
		a := supervisor.Aside{Cause: "XID 119", Fix: "reset it", At: time.Now()}
		if !f.s.SetAside("GPU-1", a) || f.s.SetAside("GPU-1", a) {
			t.Error("news once, and once only")
		}
		if r := f.replica(1); r.State != supervisor.Draining || time.Until(r.Deadline) != machine.AsideDrain {
			t.Errorf("what it holds may finish: %s, %s left", r.State, time.Until(r.Deadline))
		}
		held.Store(0)
		f.reach(1, supervisor.Parked, time.Second)
		r := f.replica(1)
		if r.Note != "its GPU is set aside: XID 119" || r.Diagnosis.Fix != "reset it; then `warden retry r1` takes it back into use" || r.Failures != 0 {
			t.Errorf("%q %+v, %d failures", r.Note, r.Diagnosis, r.Failures)
		}
		f.sleep(time.Hour)
		if f.replica(0).State != supervisor.Ready || f.replica(1).State != supervisor.Parked || f.replica(2).State != supervisor.Ready || f.w.starts() != 3 {
			t.Errorf("an hour later: %s %s %s, %d starts", f.replica(0).State, f.replica(1).State, f.replica(2).State, f.w.starts())
		}
		if err := f.s.Restart("r1", 0); err != nil { // a restart does not make the GPU better
			t.Error(err)
		}
		f.sleep(time.Second)
		if r := f.replica(1); r.State != supervisor.Parked || len(f.s.Asides()) != 1 {
			t.Errorf("a restart brought it to %s", r.State)
		}
		if err := f.s.Retry("r1"); err != nil {
			t.Error(err)
		}
		f.reach(1, supervisor.Ready, 5*time.Second)
		told := f.happened(events.KindGPU)
		if len(f.s.Asides()) != 0 || len(told) != 1 || !strings.Contains(told[0], "r1 its GPU is used again by order; it was set aside for: XID 119") {
			t.Errorf("%v %q", f.s.Asides(), told)
		}
	})
}

// A GPU that is gone takes nothing with it: what it holds breaks at once, so that it goes elsewhere.
func TestLostGPUIsNotWaitedFor(t *testing.T) {
	work := func(supervisor.ReplicaID) supervisor.Work { return supervisor.Work{Held: 1, LastByte: time.Now()} }
	inBubble(t, 1, func(w *world, o *Options) { o.Work, w.load = work, 100*time.Millisecond }, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Minute)
		f.s.SetAside("GPU-0", supervisor.Aside{Cause: "XID 119"})
		f.sleep(time.Second)
		if s := f.replica(0).State; s != supervisor.Draining {
			t.Fatalf("%s", s)
		}
		if !f.s.SetAside("GPU-0", supervisor.Aside{Cause: "XID 79", Gone: true}) {
			t.Error("worse is news")
		}
		f.reach(0, supervisor.Parked, time.Second)
		if r := f.replica(0); !strings.Contains(r.Note, "XID 79") {
			t.Errorf("note %q", r.Note)
		}
	})
}

func TestSetAsideOutlivesWarden(t *testing.T) {
	dir := t.TempDir()
	run := func(boot string, adopt bool, test func(*fixture)) {
		t.Helper()
		inBubble(t, 2, func(w *world, o *Options) {
			o.StateDir, o.BootID, w.load = dir, boot, 100*time.Millisecond
			if adopt {
				p := newFakeProcess(w, supervisor.Launch{Generation: 6}, 77)
				p.engine = newMemEngine("m")
				w.existing["r1"] = p
			}
		}, test)
	}
	run("boot-1", false, func(f *fixture) {
		f.reach(1, supervisor.Ready, time.Minute)
		f.s.SetAside("GPU-1", supervisor.Aside{Cause: "XID 79", Gone: true})
		f.reach(1, supervisor.Parked, time.Second)
	})
	for _, adopt := range []bool{false, true} {
		run("boot-1", adopt, func(f *fixture) {
			f.reach(0, supervisor.Ready, time.Minute)
			f.reach(1, supervisor.Parked, time.Minute)
			if r := f.replica(1); f.w.starts() != 1 || !strings.Contains(r.Note, "XID 79") {
				t.Errorf("adopted %t: %d starts, want that of r0; %q", adopt, f.w.starts(), r.Note)
			}
		})
	}
	for boot, want := range map[string]int{"boot-1": 1, "boot-2": 0} {
		if asides, err := ledger.ReadAsides(dir, boot); err != nil || len(asides) != want {
			t.Errorf("%s: %v %v", boot, asides, err)
		}
	}
	if asides, err := ledger.ReadAsides(t.TempDir(), "boot-1"); err != nil || len(asides) != 0 {
		t.Errorf("no state yet: %v %v", asides, err)
	}
	run("boot-2", false, func(f *fixture) {
		f.reach(1, supervisor.Ready, time.Minute)
		if len(f.s.Asides()) != 0 {
			t.Errorf("after a reboot: %v", f.s.Asides())
		}
	})
	if l, err := ledger.Open(dir, "boot-2"); err != nil || len(l.Asides()) != 0 {
		t.Errorf("%v %v", l.Asides(), err)
	}
}

// Each start is pinned anew, and one whose device is not there is a failure in words.
func TestEachStartIsPinned(t *testing.T) {
	var index atomic.Int64
	pin := func(_ context.Context, s supervisor.Spec) (supervisor.Spec, error) {
		if index.Load() < 0 {
			return s, errors.New("GPU-0 is not there")
		}
		s.Args = append(slices.Clone(s.Args), fmt.Sprint("--gpu=", index.Load()))
		return s, nil
	}
	inBubble(t, 1, func(w *world, o *Options) { o.Pin, w.load = pin, 100*time.Millisecond }, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Minute)
		index.Store(3)
		f.process(0).die(supervisor.Exit{Code: 1})
		f.sleep(5 * time.Second)
		index.Store(-1)
		f.process(0).die(supervisor.Exit{Code: 1})
		f.reach(0, supervisor.Backoff, time.Minute)
		f.sleep(3 * time.Second)
		var last []string
		f.w.mu.Lock()
		for _, l := range f.w.launches {
			last = append(last, l.Command.Argv[len(l.Command.Argv)-1])
		}
		f.w.mu.Unlock()
		if diff := cmp.Diff([]string{"--gpu=0", "--gpu=3"}, last); diff != "" {
			t.Error(diff)
		}
		if d := f.replica(0).Diagnosis; d.Cause != "GPU-0 is not there" || d.Permanent {
			t.Errorf("%+v", d)
		}
	})
}
