package placement

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// busyPlacer has 64 replicas and 10,000 conversations, of which some are in
// flight and, with admission, some wait.
func busyPlacer(policy string, capacity int) (*Placer, func() Event, func(time.Duration) time.Time) {
	p := New(Config{Policy: policy})
	now := time.Unix(1_000_000, 0)
	set := make([]Replica, 64)
	for i := range set {
		set[i] = Replica{
			ID: ReplicaID(fmt.Sprintf("r%02d", i)), Generation: 1, Accepting: true,
			MaxNumSeqs: 64, KVCapacityTokens: capacity,
		}
	}
	p.Step(Replicas{set}, now)
	rng := rand.New(rand.NewPCG(1, 2))
	var next uint64
	var held []uint64
	arrive := func() Event {
		next++
		var k Key
		binary.BigEndian.PutUint64(k[:], 1+rng.Uint64N(10_000))
		return Arrive{Turn{ID: next, Key: k, Root: 1, PromptTokens: 8000 + rng.IntN(8000)}}
	}
	note := func(actions []Action) {
		for _, a := range actions {
			if d, ok := a.(Dispatch); ok {
				held = append(held, d.TurnID)
			}
		}
	}
	event := func() Event {
		if len(held) > 1000 || (len(held) > 0 && p.queue.Len() > 200) {
			i := rng.IntN(len(held))
			id := held[i]
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
			return Finish{id, Outcome{PromptTokens: 9000, CachedTokens: 4000, OutputTokens: 200, FinishClass: "tool_calls"}}
		}
		return arrive()
	}
	step := func(d time.Duration) time.Time { now = now.Add(d); return now }
	for range 40_000 {
		note(p.Step(event(), step(time.Millisecond)))
	}
	return p, func() Event {
		ev := event()
		// The caller steps; what it dispatches is found in the book.
		if a, ok := ev.(Arrive); ok {
			held = append(held, a.Turn.ID)
		}
		return ev
	}, step
}

// threadTime is what this thread has computed so far: unlike the time of day it
// does not count what others do on a busy machine.
func threadTime(b *testing.B) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// dispatches counts the turns that a step has placed: the end of one turn may
// make room for many.
func dispatches(actions []Action) (n int) {
	for _, a := range actions {
		if _, ok := a.(Dispatch); ok {
			n++
		}
	}
	return n
}

func p99(took []time.Duration) float64 {
	slices.Sort(took)
	return float64(took[len(took)*99/100].Nanoseconds())
}

func BenchmarkStep(b *testing.B) {
	for _, policy := range []string{PolicyBalance, PolicyAffinity, PolicyAdmission} {
		for _, capacity := range []int{200_000, 2_000_000} {
			b.Run(fmt.Sprintf("%s/%dk", policy, capacity/1000), func(b *testing.B) {
				p, event, step := busyPlacer(policy, capacity)
				steps, decisions := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
				b.ReportAllocs()
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				for b.Loop() {
					ev, now := event(), step(time.Millisecond)
					start := threadTime(b)
					actions := p.Step(ev, now)
					took := threadTime(b) - start
					steps = append(steps, took)
					placed := max(1, dispatches(actions))
					for range placed {
						decisions = append(decisions, took/time.Duration(placed))
					}
				}
				b.ReportMetric(p99(steps), "p99-step-ns")
				b.ReportMetric(p99(decisions), "p99-decision-ns")
				b.ReportMetric(float64(p.sessions.Len()), "sessions")
				b.ReportMetric(float64(p.queue.Len()), "queued")
			})
		}
	}
}

func BenchmarkView(b *testing.B) {
	p, _, step := busyPlacer(PolicyAffinity, 2_000_000)
	now := step(0)
	for b.Loop() {
		p.View(now)
	}
}

// A conversation may cost 1 KiB at most, all maps and lists included.
func TestMemoryPerSession(t *testing.T) {
	var before, after runtime.MemStats
	p := New(Config{Policy: PolicyAdmission})
	now := time.Unix(1_000_000, 0)
	p.Step(Replicas{fleet(4)}, now)
	runtime.GC()
	runtime.ReadMemStats(&before)
	const n = 10_000
	for i := range n {
		now = now.Add(10 * time.Millisecond)
		var k Key
		binary.BigEndian.PutUint64(k[:], uint64(i)+1)
		p.Step(Arrive{Turn{ID: uint64(i) + 1, Key: k, Root: uint64(i % 5), PromptTokens: 3000}}, now)
		p.Step(Finish{uint64(i) + 1, Outcome{PromptTokens: 3000, CachedTokens: 0, OutputTokens: 100}}, now)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if p.sessions.Len() != n {
		t.Fatalf("%d conversations known, want %d", p.sessions.Len(), n)
	}
	if each := (after.HeapAlloc - before.HeapAlloc) / n; each > 1024 {
		t.Errorf("%d bytes a conversation, at most 1024 allowed", each)
	}
	runtime.KeepAlive(p)
}
