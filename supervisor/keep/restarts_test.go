package keep

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor"
)

func TestRestartsAreCountedByCause(t *testing.T) {
	tests := []struct {
		name string
		end  func(*fixture) // of a ready engine
		want supervisor.RestartCounts
	}{
		{"by order", func(f *fixture) { f.order(f.s.Restart("r0", 0)) }, supervisor.RestartCounts{Order: 1}},
		{"by order, after a drain", func(f *fixture) { f.order(f.s.Restart("r0", time.Minute)) }, supervisor.RestartCounts{Order: 1}},
		{"killed by order", func(f *fixture) { f.order(f.s.Kill("r0")) }, supervisor.RestartCounts{Order: 1}},
		{"exit", func(f *fixture) { f.process(0).die(supervisor.Exit{Code: 1}) }, supervisor.RestartCounts{Crash: 1}},
		{"dead core", func(f *fixture) { f.engine(0).health.Store(503) }, supervisor.RestartCounts{Crash: 1}},
		{"hang", func(f *fixture) { f.engine(0).hung.Store(true) }, supervisor.RestartCounts{Hang: 1}},
		{"failed start", func(f *fixture) {
			f.w.mu.Lock()
			f.w.onStart = dieAtOnce(1)
			f.w.mu.Unlock()
			f.order(f.s.Restart("r0", 0))
		}, supervisor.RestartCounts{Order: 1, Start: 1}},
		{"stopped and started", func(f *fixture) {
			f.order(f.s.Stop("r0", 0))
			f.reach(0, supervisor.Stopped, time.Minute)
			f.order(f.s.Retry("r0"))
		}, supervisor.RestartCounts{Order: 1}},
		{"started by order after a crash", func(f *fixture) {
			f.process(0).die(supervisor.Exit{Code: 1})
			f.reach(0, supervisor.Backoff, time.Second)
			f.order(f.s.Retry("r0"))
		}, supervisor.RestartCounts{Order: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prepare := func(_ *world, o *Options) {
				o.Work = func(supervisor.ReplicaID) supervisor.Work { return supervisor.Work{Held: 1} }
			}
			if tt.want.Hang == 0 {
				prepare = nil
			}
			inBubble(t, 1, prepare, func(f *fixture) {
				f.reach(0, supervisor.Ready, time.Second)
				tt.end(f)
				sum := 0
				for _, n := range tt.want.All {
					sum += n
				}
				for f.replica(0).Restarts < sum {
					f.sleep(time.Second)
				}
				f.reach(0, supervisor.Ready, time.Minute)
				if diff := cmp.Diff(tt.want, f.replica(0).RestartsBy); diff != "" {
					t.Error(diff)
				}
				if got := f.replica(0).Restarts; got != sum {
					t.Errorf("%d restarts, %d by cause", got, sum)
				}
			})
		})
	}
}

// dieAtOnce makes the first engines of a test end as soon as they were started.
func dieAtOnce(times int) func(*fakeProcess) {
	var mu sync.Mutex
	return func(p *fakeProcess) {
		mu.Lock()
		defer mu.Unlock()
		if times--; times >= 0 {
			p.die(supervisor.Exit{Code: 1})
		}
	}
}

// order fails the test when an order was refused.
func (f *fixture) order(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func TestStartPhasesAreKept(t *testing.T) {
	inBubble(t, 1, func(w *world, _ *Options) { w.load = 40 * time.Second }, func(f *fixture) {
		f.reach(0, supervisor.Starting, time.Second)
		f.process(0).line("phase weights 1/2")
		f.sleep(10 * time.Second)
		if got := f.replica(0).StartPhases; got != nil {
			t.Errorf("%v before the start was over", got)
		}
		f.process(0).line("phase graphs")
		f.reach(0, supervisor.Ready, time.Minute)
		var names []string
		total := time.Duration(0)
		for _, p := range f.replica(0).StartPhases {
			names, total = append(names, p.Name), total+p.Took
		}
		if diff := cmp.Diff([]string{supervisor.PhaseSpawn, supervisor.PhaseWeights, supervisor.PhaseGraphs}, names); diff != "" {
			t.Error(diff)
		}
		if got := f.replica(0).LastStart; total.Round(time.Second) != got.Round(time.Second) {
			t.Errorf("phases take %s, the start %s", total, got)
		}
		f.order(f.s.Restart("r0", 0))
		f.reach(0, supervisor.Starting, time.Minute)
		if got := len(f.replica(0).StartPhases); got != 3 {
			t.Errorf("%d phases of the last successful start are known during the next", got)
		}
	})
}

func TestScrapedTextIsHandedOn(t *testing.T) {
	type scrape struct {
		id         supervisor.ReplicaID
		generation uint64
		text       string
	}
	var mu sync.Mutex
	var got []scrape
	prepare := func(w *world, o *Options) {
		w.load = time.Second
		o.Scraped = func(id supervisor.ReplicaID, generation uint64, _ time.Time, text []byte) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, scrape{id, generation, string(text)})
		}
	}
	inBubble(t, 1, prepare, func(f *fixture) {
		f.reach(0, supervisor.Ready, time.Minute)
		f.order(f.s.Restart("r0", 0))
		f.reach(0, supervisor.Starting, time.Minute)
		f.reach(0, supervisor.Ready, time.Minute)
		f.sleep(1500 * time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		for _, want := range []scrape{{"r0", 1, "tokens 1\n"}, {"r0", 2, "tokens 1\n"}} {
			if !slices.Contains(got, want) {
				t.Errorf("%+v is not in %+v", want, got)
			}
		}
	})
}
