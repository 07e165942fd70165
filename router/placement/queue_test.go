package placement

import (
	"testing"
	"time"
)

func starting(n int) []Replica {
	set := fleet(n)
	for i := range set {
		set[i].Accepting = false
	}
	return set
}

func TestNothingAcceptsYet(t *testing.T) {
	r := newRig(t, Config{}, starting(2)...)
	first := r.arrive(Turn{Key: key(1)})
	second := r.arrive(Turn{Key: key(2)})
	q := r.p.View(r.now).Queue
	if len(q) != 2 || q[0].TurnID != first || q[1].TurnID != second || q[1].Position != 2 ||
		q[0].Why != WhyStarting || q[1].Why != WhyStarting {
		t.Fatalf("queue %+v", q)
	}
	if want := r.now.Add(240 * time.Second); !r.wake.Equal(want) {
		t.Errorf("wakes at %v, want at the first's deadline %v", r.wake, want)
	}
	r.advance(30 * time.Second)
	set := starting(2)
	set[1].Accepting = true
	r.step(Replicas{set})
	if len(r.held) != 2 || len(r.waiting) != 0 {
		t.Fatalf("held %v waiting %v after one replica is ready", r.held, r.waiting)
	}
	if d := r.held[second]; d.Waited != 30*time.Second || d.Replica != "r1" {
		t.Errorf("%+v", d)
	}
}

func TestWaitIsBounded(t *testing.T) {
	r := newRig(t, Config{MaxWait: 10 * time.Second, MaxQueue: 2}, starting(1)...)
	first := r.arrive(Turn{Key: key(1)})
	r.advance(4 * time.Second)
	second := r.arrive(Turn{Key: key(2)})
	third := r.arrive(Turn{Key: key(3)})
	if r.ended[third] != "reject queue_full" {
		t.Errorf("third: %q", r.ended[third])
	}
	r.now = r.wake
	r.step(Tick{})
	if r.ended[first] != "reject timeout" || !r.waiting[second] {
		t.Fatalf("after 10 s: first %q, second waiting %v", r.ended[first], r.waiting[second])
	}
	r.now = r.wake
	r.step(Tick{})
	if r.ended[second] != "reject timeout" {
		t.Errorf("second: %q", r.ended[second])
	}
}

func TestFullIsFirstInFirstOut(t *testing.T) {
	set := fleet(1)
	set[0].MaxNumSeqs = 8 // holds 9
	r := newRig(t, Config{}, set...)
	var held []uint64
	for i := range 9 {
		held = append(held, r.place(Turn{Key: key(i)}).TurnID)
	}
	var waiting []uint64
	for i := range 3 {
		id := r.arrive(Turn{Key: key(i)})
		if !r.waiting[id] {
			t.Fatalf("turn %d did not wait", id)
		}
		waiting = append(waiting, id)
	}
	if why := r.p.View(r.now).Queue[2].Why; why != WhyFull {
		t.Errorf("waits for %q", why)
	}
	r.cancel(waiting[1])
	r.finish(held[0], Outcome{CachedTokens: -1})
	if _, ok := r.held[waiting[0]]; !ok {
		t.Fatal("the first did not go first")
	}
	r.finish(held[1], Outcome{CachedTokens: -1})
	if _, ok := r.held[waiting[2]]; !ok {
		t.Fatal("the third did not go after the cancelled second")
	}
}

func TestFailover(t *testing.T) {
	r := newRig(t, Config{}, fleet(3)...)
	d := r.place(Turn{Key: key(1), PromptTokens: 1000})
	tried := map[ReplicaID]bool{d.Replica: true}
	r.retry(d.TurnID)
	second := r.held[d.TurnID]
	if tried[second.Replica] || second.Reason != ReasonFailover || !second.Rehomed {
		t.Fatalf("second attempt: %+v", second)
	}
	tried[second.Replica] = true
	r.retry(d.TurnID)
	third := r.held[d.TurnID]
	if tried[third.Replica] {
		t.Fatalf("third attempt on %s again", third.Replica)
	}
	r.retry(d.TurnID)
	if r.ended[d.TurnID] != "reject failed" {
		t.Errorf("a turn that breaks three replicas: %q", r.ended[d.TurnID])
	}
}

func TestOnlyReplicaFailedTheTurn(t *testing.T) {
	r := newRig(t, Config{}, fleet(1)...)
	d := r.place(Turn{Key: key(1)})
	delete(r.held, d.TurnID)
	r.waiting[d.TurnID] = true // until told otherwise
	r.step(Retry{d.TurnID, d.Replica})
	if q := r.p.View(r.now).Queue; len(q) != 1 || q[0].Why != WhyRetrying {
		t.Fatalf("queue %+v", q)
	}
	// Others are not held up by a turn that waits for reasons of its own.
	r.place(Turn{Key: key(2)})
	if want := r.now.Add(retryPause); r.wake.After(want) {
		t.Fatalf("wakes at %v, want by %v", r.wake, want)
	}
	r.now = r.wake
	r.step(Tick{})
	if _, ok := r.held[d.TurnID]; !ok {
		t.Error("not tried again after the pause")
	}
}

func TestNewProcessIsTriedAtOnce(t *testing.T) {
	r := newRig(t, Config{}, fleet(1)...)
	d := r.place(Turn{Key: key(1)})
	r.step(Replicas{starting(1)})
	r.retry(d.TurnID)
	if !r.waiting[d.TurnID] {
		t.Fatal("does not wait for the restart")
	}
	set := fleet(1)
	set[0].Generation = 2
	r.step(Replicas{set})
	if got := r.held[d.TurnID]; got.Generation != 2 {
		t.Errorf("%+v", got)
	}
}

func TestPinnedNeverGoesElsewhere(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Replica)
		turn   Turn
	}{
		{"not accepting", func(r *Replica) { r.Accepting = false }, Turn{Pinned: "r0"}},
		{"other process", func(r *Replica) { r.Generation = 2 }, Turn{Pinned: "r0", PinnedGeneration: 1}},
		{"unknown replica", func(*Replica) {}, Turn{Pinned: "r7"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := fleet(2)
			tt.change(&set[0])
			r := newRig(t, Config{}, set...)
			if id := r.arrive(tt.turn); r.ended[id] != "reject pinned_gone" {
				t.Errorf("held %v, ended %q", r.held[id], r.ended[id])
			}
		})
	}
}

func TestEveryEndCountsOnce(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	d := r.place(Turn{Key: key(1), PromptTokens: 500})
	r.cancel(d.TurnID)
	for _, ev := range []Event{
		Finish{TurnID: d.TurnID}, Cancel{d.TurnID}, FirstByte{d.TurnID}, Retry{d.TurnID, d.Replica},
		Finish{TurnID: 999}, Stats{Replica: "r9"},
	} {
		r.step(ev)
	}
	same := r.place(Turn{Key: key(1), PromptTokens: 500})
	r.step(Arrive{Turn{ID: same.TurnID, Key: key(2)}})
	r.step(Retry{same.TurnID, "r9"})
	if got := r.p.View(r.now).Counters.Ignored; got != 8 {
		t.Errorf("ignored %d events, want 8", got)
	}
	r.step(FirstByte{same.TurnID})
	r.finish(same.TurnID, Outcome{CachedTokens: -1})
	for _, v := range r.p.View(r.now).Replicas {
		if v.Held != 0 || v.PrefillTokens != 0 {
			t.Errorf("%s: held %d, prefill %d at the end", v.ID, v.Held, v.PrefillTokens)
		}
	}
}

func TestTableIsBounded(t *testing.T) {
	r := newRig(t, Config{MaxSessions: 10, SessionTTL: time.Hour}, fleet(2)...)
	running := r.place(Turn{Key: key(0), PromptTokens: 100})
	for i := 1; i <= 20; i++ {
		r.turn(Turn{Key: key(i), PromptTokens: 100})
		r.advance(time.Second)
	}
	v := r.p.View(r.now)
	if v.SessionsKnown != 10 || v.Counters.SessionsEvicted != 11 {
		t.Fatalf("%d known, %d evicted", v.SessionsKnown, v.Counters.SessionsEvicted)
	}
	if got := r.session(key(0)); got.InFlight != 1 {
		t.Error("a conversation with a running turn was forgotten")
	}
	for i := 1; i < len(v.Sessions); i++ {
		if v.Sessions[i].LastSeen.After(v.Sessions[i-1].LastSeen) {
			t.Errorf("sessions not sorted by last sight at %d", i)
		}
	}
	r.advance(time.Hour + time.Second)
	r.step(Tick{})
	if v := r.p.View(r.now); v.SessionsKnown != 1 || v.Counters.SessionsExpired != 9 {
		t.Errorf("after an hour: %d known, %d expired", v.SessionsKnown, v.Counters.SessionsExpired)
	}
	r.finish(running.TurnID, Outcome{CachedTokens: -1})
	sticky := 0
	for _, rep := range r.p.View(r.now).Replicas {
		sticky += rep.Sticky
	}
	if sticky != 1 {
		t.Errorf("ledgers count %d homes, want 1", sticky)
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	r := newRig(t, Config{MaxWait: 10 * time.Second}, starting(1)...)
	now := r.now
	r.now = now.Add(-time.Hour) // the clock was set back
	id := r.arrive(Turn{Key: key(1)})
	r.now = now
	r.step(Tick{})
	if !r.waiting[id] {
		t.Fatalf("refused as if it had waited an hour: %q", r.ended[id])
	}
	r.advance(10 * time.Second)
	r.step(Tick{})
	if r.waiting[id] {
		t.Error("a clock that went back made the wait longer")
	}
}
