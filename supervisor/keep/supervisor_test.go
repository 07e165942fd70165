package keep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/internal/testengine"
	"github.com/lm-warden/warden/supervisor/machine"
	"github.com/lm-warden/warden/supervisor/shim"
)

// TestMain lets the test binary be a shim and an engine as well.
func TestMain(m *testing.M) { testengine.TestMain(m, shim.Main) }

func TestReplicaBecomesReady(t *testing.T) {
	inBubble(t, 1, func(w *world, _ *Options) { w.load = 40 * time.Second }, func(f *fixture) {
		f.reach(0, supervisor.Starting, time.Second)
		p := f.process(0)
		p.line("phase weights 1/2")
		p.line("phase spawn")
		f.sleep(10 * time.Second)
		if r := f.replica(0); r.Phase.Name != supervisor.PhaseWeights || r.Phase.Done != 1 || r.State != supervisor.Starting || r.PID != 1 {
			t.Errorf("during the load: %+v", r)
		}
		p.line("phase graphs")
		took := f.reach(0, supervisor.Ready, time.Minute)
		if took > 31*time.Second {
			t.Errorf("ready %s after it listened", took-30*time.Second)
		}
		f.sleep(2 * time.Second)
		r := f.replica(0)
		if r.Generation != 1 || r.Restarts != 0 || r.ServedModel != "m" || r.MaxModelLen != 4096 || r.Version != "1.2.3" ||
			r.ReadyAt.IsZero() || r.LastStart < 40*time.Second || r.LastStart > 41*time.Second {
			t.Errorf("%+v", r)
		}
		if age := time.Since(r.Stats.At); r.Stats.GenerationTokens != 1 || age > 1100*time.Millisecond {
			t.Errorf("stats %+v, %s old; want the one token of the first request", r.Stats, age)
		}
		want := []string{"r0 40s after start (weights 10s, graphs 30s)"}
		if diff := cmp.Diff(want, f.happened(events.KindReady)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFirstReplicaStartsAloneThenTheRest(t *testing.T) {
	inBubble(t, 4, func(w *world, _ *Options) { w.load = 30 * time.Second }, func(f *fixture) {
		f.sleep(29 * time.Second)
		if n := f.w.starts(); n != 1 {
			t.Errorf("%d engines started before the first was ready", n)
		}
		f.reach(0, supervisor.Ready, 5*time.Second)
		f.sleep(time.Second)
		if n := f.w.starts(); n != 4 {
			t.Errorf("%d engines started after the first was ready, want 4", n)
		}
		for i := range 4 {
			f.reach(i, supervisor.Ready, 40*time.Second)
		}
	})
}

func TestParallelStart(t *testing.T) {
	inBubble(t, 4, func(w *world, o *Options) { w.load, o.ParallelStart = time.Minute, true }, func(f *fixture) {
		f.sleep(time.Second)
		if n := f.w.starts(); n != 4 {
			t.Errorf("%d engines started at once, want 4", n)
		}
	})
}

func TestSiblingsOfAParkedReplicaTryOnce(t *testing.T) {
	fail := func(p *fakeProcess) {
		p.line("fatal: bad flag")
		p.die(supervisor.Exit{Code: 2})
	}
	inBubble(t, 4, func(w *world, _ *Options) { w.onStart = fail }, func(f *fixture) {
		for i := range 4 {
			f.reach(i, supervisor.Parked, time.Minute)
		}
		if n := f.w.starts(); n != 5 {
			t.Errorf("%d starts with the same bad flag, want 2 + 1 + 1 + 1", n)
		}
		if r := f.replica(3); r.Diagnosis.Cause != "bad flag" || !r.Diagnosis.Permanent || r.LastExit.Code != 2 {
			t.Errorf("%+v", r)
		}
	})
}

func TestAnyExitIsAFailure(t *testing.T) {
	inBubble(t, 1, nil, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Second)
		f.process(0).die(supervisor.Exit{Code: 0}) // as vLLM does when its core has died
		f.reach(0, supervisor.Backoff, 10*time.Millisecond)
		r := f.replica(0)
		if r.PID != 0 || r.LastExit == nil || r.Diagnosis.Cause != "code 0" || r.Failures != 1 || r.NextRetry.IsZero() {
			t.Errorf("%+v", r)
		}
		if took := f.reach(0, supervisor.Ready, time.Minute); took > 1500*time.Millisecond {
			t.Errorf("ready again after %s", took)
		}
		if r := f.replica(0); r.Generation != 2 || r.Restarts != 1 {
			t.Errorf("generation %d, restarts %d", r.Generation, r.Restarts)
		}
		want := []string{"r0 code 0; restarting in 500ms (1 of 5)"}
		if diff := cmp.Diff(want, f.happened(events.KindExited)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCrashLoopEndsParked(t *testing.T) {
	inBubble(t, 2, func(w *world, o *Options) {
		o.ParallelStart = true
		w.onStart = func(p *fakeProcess) {
			if p.w.process("unix:/e/r0") == p {
				p.die(supervisor.Exit{Code: 1})
			}
		}
	}, func(f *fixture) {
		f.sleep(time.Hour)
		if n := f.w.starts(); n != 1+machine.FailLimit {
			t.Errorf("%d starts in an hour, want %d and 1 for the other", n, machine.FailLimit)
		}
		if r := f.replica(0); r.State != supervisor.Parked || !r.NextRetry.IsZero() {
			t.Errorf("%+v", r)
		}
		if s := f.replica(1).State; s != supervisor.Ready {
			t.Errorf("the other replica is %s", s)
		}
		f.w.mu.Lock()
		f.w.onStart = nil
		f.w.mu.Unlock()
		if err := f.s.Retry("r0"); err != nil {
			t.Fatal(err)
		}
		f.reach(0, supervisor.Ready, 5*time.Second)
	})
}

func TestStallOfAMinuteRestartsNothing(t *testing.T) {
	work := func(supervisor.ReplicaID) supervisor.Work { return supervisor.Work{Held: 3, LastByte: time.Time{}} }
	inBubble(t, 1, func(_ *world, o *Options) { o.Work = work }, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Second)
		f.engine(0).stalled.Store(true)
		if took := f.reach(0, supervisor.Suspect, time.Minute); took > 5*time.Second { // up to 1 s to the next probe, and two of 2 s
			t.Errorf("suspected after %s", took)
		}
		f.sleep(time.Minute)
		f.engine(0).stalled.Store(false)
		if took := f.reach(0, supervisor.Ready, time.Minute); took > 5*time.Second {
			t.Errorf("trusted again after %s", took)
		}
		if n := f.w.starts(); n != 1 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestHangBehindAGoodHealthIsFound(t *testing.T) {
	var held atomic.Int64
	work := func(supervisor.ReplicaID) supervisor.Work { return supervisor.Work{Held: int(held.Load())} }
	inBubble(t, 1, func(_ *world, o *Options) { o.Work = work }, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Second)
		f.engine(0).hung.Store(true)
		f.sleep(20 * time.Minute) // nothing is held: nothing can be said, nothing is wrong
		if n := f.w.starts(); n != 1 {
			t.Fatalf("%d starts while no work was held", n)
		}
		held.Store(1)
		took := f.reach(0, supervisor.Backoff, 10*time.Minute)
		if took < 180*time.Second || took > 300*time.Second {
			t.Errorf("found after %s, want 180 to 300 s", took)
		}
		if cause := f.replica(0).Diagnosis.Cause; !strings.Contains(cause, "hangs: no progress") {
			t.Errorf("cause %q", cause)
		}
	})
}

func TestSlowWorkIsNoHang(t *testing.T) {
	tests := []struct {
		name string
		move func(f *fixture, bytes *atomic.Int64)
	}{
		{"bytes on a stream", func(_ *fixture, bytes *atomic.Int64) { bytes.Add(1) }},
		{"the engine's counters", func(f *fixture, _ *atomic.Int64) { f.engine(0).tokens.Add(1) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var bytes atomic.Int64
			work := func(supervisor.ReplicaID) supervisor.Work {
				return supervisor.Work{Held: 1, LastByte: t0.Add(time.Duration(bytes.Load()))}
			}
			inBubble(t, 1, func(_ *world, o *Options) { o.Work = work }, func(f *fixture) {
				f.reach(0, supervisor.Ready, time.Second)
				f.engine(0).hung.Store(true)
				for range 20 {
					tt.move(f, &bytes)
					f.sleep(170 * time.Second)
				}
				if n := f.w.starts(); n != 1 {
					t.Errorf("%d starts", n)
				}
			})
		})
	}
}

func TestCanaryAcquits(t *testing.T) {
	work := func(supervisor.ReplicaID) supervisor.Work { return supervisor.Work{Held: 1} } // a client that does not read, say
	inBubble(t, 1, func(_ *world, o *Options) { o.Work = work }, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Second)
		f.sleep(20 * time.Minute)
		if n, asked := f.w.starts(), f.engine(0).requests.Load(); n != 1 || asked < 5 || asked > 8 {
			t.Errorf("%d starts, %d test requests in 20 minutes", n, asked)
		}
	})
}

func TestDeadEngineIsRestartedAtOnce(t *testing.T) {
	tests := []struct {
		name string
		die  func(*fixture)
		want string
	}{
		{"health says so", func(f *fixture) { f.engine(0).health.Store(503) }, "core is dead"},
		{"nobody listens", func(f *fixture) { f.engine(0).close() }, "no longer listens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, 1, nil, func(f *fixture) {
				f.reach(0, supervisor.Ready, time.Second)
				tt.die(f)
				if took := f.reach(0, supervisor.Backoff, time.Minute); took > 1100*time.Millisecond {
					t.Errorf("found after %s", took)
				}
				if cause := f.replica(0).Diagnosis.Cause; !strings.Contains(cause, tt.want) {
					t.Errorf("cause %q", cause)
				}
			})
		})
	}
}

func TestPersistent500IsSuspectAndSaysSo(t *testing.T) {
	inBubble(t, 1, nil, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Second)
		f.engine(0).health.Store(500)
		f.reach(0, supervisor.Suspect, 10*time.Second)
		if note := f.replica(0).Note; !strings.Contains(note, "500") {
			t.Errorf("note %q", note)
		}
	})
}

func TestFailedRequestsRaiseSuspicion(t *testing.T) {
	reset := syscall.ECONNRESET
	inBubble(t, 1, nil, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Second)
		f.engine(0).health.Store(500) // keeps the suspicion alive, and is not enough alone within 3 s
		f.s.ReportFailure("r0", 7, reset)
		f.s.ReportFailure("r0", 7, reset)
		f.s.ReportFailure("r0", 1, reset)
		f.sleep(time.Millisecond)
		if s := f.replica(0).State; s != supervisor.Ready {
			t.Errorf("%s after one failure of this generation and two of another", s)
		}
		f.s.ReportFailure("r0", 1, reset)
		f.sleep(time.Millisecond)
		if r := f.replica(0); r.State != supervisor.Suspect || !strings.Contains(r.Note, "2 requests failed") {
			t.Errorf("%s, %q after two failures", r.State, r.Note)
		}
		f.engine(0).health.Store(200)
		f.reach(0, supervisor.Ready, 5*time.Second)
		f.s.ReportFailure("r9", 1, reset) // unknown: nothing happens
	})
}

func TestDrainAndRestart(t *testing.T) {
	var held atomic.Int64
	work := func(supervisor.ReplicaID) supervisor.Work {
		return supervisor.Work{Held: int(held.Load()), LastByte: time.Now()}
	}
	inBubble(t, 1, func(_ *world, o *Options) { o.Work = work }, func(f *fixture) {
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		f.reach(0, supervisor.Ready, time.Second)
		must(f.s.Drain("r0"))
		f.sleep(10 * time.Minute)
		if s := f.replica(0).State; s != supervisor.Draining || f.w.starts() != 1 {
			t.Errorf("%s, %d starts ten minutes after the drain", s, f.w.starts())
		}
		must(f.s.Undrain("r0"))
		f.reach(0, supervisor.Ready, 0)

		must(f.s.Drain("r0")) // what is drained holds nothing that a restart waits for
		f.sleep(time.Minute)
		must(f.s.Restart("r0", 30*time.Minute))
		f.reach(0, supervisor.Stopping, 100*time.Millisecond)
		f.reach(0, supervisor.Ready, 5*time.Second)

		held.Store(2)
		must(f.s.Restart("r0", 2*time.Minute))
		f.sleep(30 * time.Second)
		if r := f.replica(0); r.State != supervisor.Draining || time.Until(r.Deadline) != 90*time.Second {
			t.Errorf("%s while it holds requests, %s left", r.State, time.Until(r.Deadline))
		}
		held.Store(0)
		f.reach(0, supervisor.Stopping, 100*time.Millisecond)
		f.reach(0, supervisor.Ready, 5*time.Second)
		if r := f.replica(0); r.Generation != 3 || r.Failures != 0 {
			t.Errorf("generation %d, %d failures", r.Generation, r.Failures)
		}

		held.Store(1)
		must(f.s.Restart("r0", 2*time.Minute))
		if took := f.reach(0, supervisor.Stopping, 3*time.Minute); took < 119*time.Second || took > 121*time.Second {
			t.Errorf("the drain lasted %s", took)
		}
		f.reach(0, supervisor.Ready, 5*time.Second)
		must(f.s.Stop("r0", 0))
		f.reach(0, supervisor.Stopped, time.Second)
		if err := f.s.Undrain("r0"); !errors.Is(err, ErrNotNow) || !strings.Contains(err.Error(), "cannot undrain replica r0, it is stopped") {
			t.Errorf("undrain: %v", err)
		}
		if err := f.s.Drain("r7"); !errors.Is(err, ErrUnknownReplica) {
			t.Errorf("unknown replica: %v", err)
		}
		must(f.s.Retry("r0"))
		f.reach(0, supervisor.Ready, 5*time.Second)
	})
}

func TestSilentStartIsGivenUp(t *testing.T) {
	inBubble(t, 1, func(w *world, _ *Options) { w.silent = true }, func(f *fixture) {
		f.reach(0, supervisor.Starting, time.Second)
		p := f.process(0)
		for range 3 {
			f.sleep(20 * time.Minute)
			p.line("loaded another part " + strings.Repeat("x", int(time.Since(f.begun).Minutes())))
		}
		for range 29 { // says the same again and again
			f.sleep(time.Minute)
			p.line("still waiting, 10 s")
		}
		if s := f.replica(0).State; s != supervisor.Starting {
			t.Fatalf("%s although the log told of progress", s)
		}
		f.reach(0, supervisor.Backoff, 3*time.Minute)
		if r := f.replica(0); !strings.Contains(r.Diagnosis.Cause, "no progress in the log for 30m") || r.Diagnosis.Fix != silentFix(r.Spec) {
			t.Errorf("%s, %+v", r.State, r.Diagnosis)
		}
	})
}

func TestSilentStartOfSeveralGPUsNamesTheirLink(t *testing.T) {
	for _, tt := range []struct {
		spec supervisor.Spec
		want bool
	}{{supervisor.Spec{TP: 2, Device: supervisor.DeviceCUDA}, true}, {supervisor.Spec{TP: 1, Device: supervisor.DeviceCUDA}, false}, {supervisor.Spec{TP: 2, Device: supervisor.DeviceCPU}, false}} {
		if got := silentFix(tt.spec); strings.Contains(got, "NCCL_P2P_DISABLE=1") != tt.want || !strings.Contains(got, "log") {
			t.Errorf("tp %d on %s: %q", tt.spec.TP, tt.spec.Device, got)
		}
	}
}

func TestEngineUnderAnotherNameIsNotReady(t *testing.T) {
	inBubble(t, 1, nil, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Second)
	})
	inBubble(t, 1, func(w *world, _ *Options) {
		w.onStart = func(p *fakeProcess) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.engine = newMemEngine("somebody else's")
		}
		w.silent = true
	}, func(f *fixture) {
		f.reach(0, supervisor.Warming, time.Second)
		f.reach(0, supervisor.Backoff, time.Minute)
		if cause := f.replica(0).Diagnosis.Cause; !strings.Contains(cause, `/v1/models lists ["somebody else's"], not "m"`) {
			t.Errorf("cause %q", cause)
		}
	})
}

func TestStartWaitsForGPUMemory(t *testing.T) {
	const gb = 1 << 30
	var free atomic.Int64
	free.Store(15 * gb)
	read := func(context.Context, []string) (uint64, bool) { return uint64(free.Load()), true }
	inBubble(t, 1, func(w *world, o *Options) { o.GPUFree, w.load = read, 100*time.Millisecond }, func(f *fixture) {
		if took := f.reach(0, supervisor.Starting, time.Minute); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("first start after %s, want three readings a second apart", took)
		}
		f.reach(0, supervisor.Ready, time.Second)
		free.Store(2 * gb)
		f.process(0).die(supervisor.Exit{Code: 1})
		f.reach(0, supervisor.WaitingGPU, 5*time.Second)
		f.sleep(20 * time.Second)
		if s := f.replica(0).State; s != supervisor.WaitingGPU {
			t.Errorf("%s while the memory is not back", s)
		}
		free.Store(15 * gb)
		if took := f.reach(0, supervisor.Starting, time.Minute); took < 2*time.Second || took > 4*time.Second {
			t.Errorf("started %s after the memory was back", took)
		}
		f.reach(0, supervisor.Ready, time.Second)
		free.Store(2 * gb) // this time it never comes back
		f.process(0).die(supervisor.Exit{Code: 1})
		f.reach(0, supervisor.WaitingGPU, 5*time.Second)
		if took := f.reach(0, supervisor.Starting, 2*time.Minute); took < 59*time.Second || took > 61*time.Second {
			t.Errorf("started after %s, want the limit", took)
		}
		if note := f.replica(0).Note; !strings.Contains(note, "2.0 GiB free, 15.0 GiB before") {
			t.Errorf("note %q", note)
		}
	})
}

func TestShutdown(t *testing.T) {
	var held atomic.Int64
	work := func(supervisor.ReplicaID) supervisor.Work { return supervisor.Work{Held: int(held.Load())} }
	inBubble(t, 3, func(w *world, o *Options) { o.Work, o.ParallelStart = work, true }, func(f *fixture) {
		for i := range 3 {
			f.reach(i, supervisor.Ready, time.Second)
		}
		held.Store(1)
		f.s.Shutdown(30 * time.Second)
		f.sleep(29 * time.Second)
		if s := f.replica(0).State; s != supervisor.Draining {
			t.Errorf("%s during the drain", s)
		}
		f.sleep(2 * time.Second)
		for i := range 3 {
			if s := f.replica(i).State; s != supervisor.Stopped {
				t.Errorf("r%d is %s after the drain", i, s)
			}
		}
		err := <-f.done
		f.done <- err
		if err != nil {
			t.Errorf("Run: %v", err)
		}
		if err := f.s.Retry("r0"); !errors.Is(err, ErrNotRunning) {
			t.Errorf("order after the end: %v", err)
		}
	})
}

func TestShutdownAtAnyMoment(t *testing.T) {
	for _, at := range []time.Duration{0, time.Millisecond, 100 * time.Millisecond, 2 * time.Second, 20 * time.Second} {
		inBubble(t, 4, func(w *world, _ *Options) { w.load = 5 * time.Second }, func(f *fixture) {
			if at > 0 {
				f.sleep(at)
			}
			f.stop() // the context of Run
			f.sleep(time.Minute)
			for i := range 4 {
				if s := f.replica(i).State; s != supervisor.Stopped {
					t.Errorf("context ended after %s: r%d is %s", at, i, s)
				}
			}
		})
	}
}

func TestStuckReplicaIsSetAside(t *testing.T) {
	inBubble(t, 2, func(w *world, o *Options) { o.ParallelStart = true }, func(f *fixture) {
		f.reach(1, supervisor.Ready, time.Second)
		f.w.undying = true
		if err := f.s.Restart("r0", 0); err != nil {
			t.Fatal(err)
		}
		f.reach(0, supervisor.Stuck, time.Second)
		f.sleep(10 * time.Minute)
		if n := f.w.starts(); n != 2 {
			t.Errorf("%d starts: the GPU of a stuck replica was used again", n)
		}
		if s := f.replica(1).State; s != supervisor.Ready {
			t.Errorf("the other replica is %s", s)
		}
	})
}

func TestAdoption(t *testing.T) {
	inBubble(t, 2, func(w *world, o *Options) {
		p := newFakeProcess(w, supervisor.Launch{Generation: 6}, 77)
		p.engine = newMemEngine("m")
		w.existing["r0"] = p
		w.load = 10 * time.Second
	}, func(f *fixture) {
		if took := f.reach(0, supervisor.Ready, time.Minute); took > 100*time.Millisecond {
			t.Errorf("adopted engine ready after %s", took)
		}
		f.sleep(2 * time.Second)
		r := f.replica(0)
		if r.Generation != 6 || !r.Adopted || r.Restarts != 0 || r.PID != 77 || r.LastStart != 0 || r.Stats.At.IsZero() {
			t.Errorf("%+v", r)
		}
		if n := f.w.starts(); n != 1 {
			t.Errorf("%d starts, want that of r1", n)
		}
		f.process(0).die(supervisor.Exit{Code: 1})
		f.reach(0, supervisor.Ready, time.Minute)
		if r := f.replica(0); r.Generation != 7 || r.Adopted || r.Restarts != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// The order may come before Run listens, and an engine be found after it.
func TestShutdownBeforeRunAlsoEndsWhatIsAdopted(t *testing.T) {
	for range 20 { // Run and the order race
		inBubble(t, 2, func(w *world, o *Options) {
			p := newFakeProcess(w, supervisor.Launch{Generation: 6}, 77)
			p.engine = newMemEngine("m")
			w.existing["r1"] = p
		}, func(f *fixture) {
			f.s.Shutdown(0)
			f.sleep(time.Minute)
			for i := range 2 {
				if s := f.replica(i).State; s != supervisor.Stopped {
					t.Errorf("r%d is %s a minute after the order", i, s)
				}
			}
		})
	}
}

func TestAdoptedEngineMayStillBeLoading(t *testing.T) {
	inBubble(t, 1, func(w *world, _ *Options) {
		p := newFakeProcess(w, supervisor.Launch{Generation: 2}, 77)
		w.existing["r0"], w.load = p, 5*time.Minute
		p.wait.Go(p.listenLater)
	}, func(f *fixture) {
		f.reach(0, supervisor.Suspect, time.Second)
		f.process(0).line("phase weights 1/2")
		f.sleep(4 * time.Minute)
		if r := f.replica(0); r.State != supervisor.Suspect || r.Phase.Name != supervisor.PhaseWeights {
			t.Errorf("%s, %+v", r.State, r.Phase)
		}
		f.reach(0, supervisor.Ready, 2*time.Minute)
		if n := f.w.starts(); n != 0 {
			t.Errorf("%d starts", n)
		}
	})
}

func TestAdoptedEngineMayBeInAStall(t *testing.T) {
	for stall, starts := range map[time.Duration]int{2 * time.Minute: 0, 10 * time.Minute: 1} {
		inBubble(t, 1, func(w *world, _ *Options) {
			p := newFakeProcess(w, supervisor.Launch{Generation: 2}, 77)
			p.engine = newMemEngine("m")
			p.engine.stalled.Store(true)
			w.existing["r0"] = p
		}, func(f *fixture) {
			f.sleep(stall)
			f.engine(0).stalled.Store(false)
			f.reach(0, supervisor.Ready, 2*time.Minute)
			if n := f.w.starts(); n != starts {
				t.Errorf("%d starts after a stall of %s", n, stall)
			}
		})
	}
}

func TestLedgerOutlivesTheSupervisor(t *testing.T) {
	dir := t.TempDir()
	for run := range 2 {
		inBubble(t, 1, func(w *world, o *Options) { o.StateDir, w.load = dir, 7*time.Second }, func(f *fixture) {
			before := f.replica(0).LastStart
			f.reach(0, supervisor.Ready, 10*time.Second)
			if g := f.replica(0).Generation; g != uint64(run+1) {
				t.Errorf("run %d: generation %d", run, g)
			}
			if known := before >= 7*time.Second; known != (run > 0) {
				t.Errorf("run %d: last start %s", run, before)
			}
		})
	}
}

func TestUnbuildableCommandParks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		list := specs(1)
		list[0].Args = []string{"--impossible"}
		s, err := New(list, Options{Launcher: w, Jitter: half})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		<-time.After(time.Minute)
		if r := s.Snapshot()[0]; r.State != supervisor.Parked || r.Note != "--impossible is no flag" || w.starts() != 0 {
			t.Errorf("%s, %q, %d starts", r.State, r.Note, w.starts())
		}
		s.Shutdown(0)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	good := specs(2)
	change := func(f func([]supervisor.Spec)) []supervisor.Spec {
		list := slices.Clone(good)
		f(list)
		return list
	}
	tests := []struct {
		name  string
		specs []supervisor.Spec
		want  string
	}{
		{"same id", change(func(s []supervisor.Spec) { s[1].ID = s[0].ID }), `"r0" is empty or used twice`},
		{"no engine", change(func(s []supervisor.Spec) { s[1].Engine = nil }), "replica r1: Engine is missing"},
		{"relative socket", change(func(s []supervisor.Spec) { s[0].Address = "unix:e.sock" }), "must be absolute"},
		{"https", change(func(s []supervisor.Spec) { s[0].Address = "https://h:1" }), "want unix:/path or http://host:port"},
	}
	for _, tt := range tests {
		if _, err := New(tt.specs, Options{Launcher: newWorld(t)}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if _, err := New(good, Options{}); err == nil {
		t.Error("no launcher: accepted")
	}
}
