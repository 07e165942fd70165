package placement

import (
	"testing"
	"time"
)

func TestForksDoNotTeachTheRoot(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	r.turn(Turn{Key: key(1), Root: 9, PromptTokens: 8000})
	d := r.place(Turn{Key: key(2), Root: 9, PromptTokens: 8200, Inherit: "r0"})
	r.finish(d.TurnID, Outcome{PromptTokens: 8200, CachedTokens: 8000, OutputTokens: 10})
	if got := r.p.sessions.Root(9).Tokens(); got != 0 {
		t.Errorf("a fork taught a shared prefix of %d tokens", got)
	}
}

func TestEstimatesFollowTheEngine(t *testing.T) {
	r := newRig(t, Config{}, fleet(1)...)
	for range 20 { // the engine counts a quarter more than the estimate
		d := r.place(Turn{Key: key(1), PromptTokens: 4000})
		r.step(FirstByte{d.TurnID})
		r.finish(d.TurnID, Outcome{PromptTokens: 5000, CachedTokens: 0, OutputTokens: 100})
	}
	if v := r.p.View(r.now); v.TokenRatio < 1.24 || v.TokenRatio > 1.26 {
		t.Errorf("token ratio %.3f, want 1.25", v.TokenRatio)
	}
	r.place(Turn{Key: key(2), PromptTokens: 8000})
	if got := r.session(key(2)).Tokens; got != 10_000 {
		t.Errorf("a new conversation is counted with %d tokens, want 10,000", got)
	}
}

func TestPrefillRateIsLearnedWhenAlone(t *testing.T) {
	r := newRig(t, Config{}, fleet(1)...)
	run := func(k int, after time.Duration, cached int) {
		d := r.place(Turn{Key: key(k), PromptTokens: 6000})
		r.advance(after)
		r.step(FirstByte{d.TurnID})
		r.finish(d.TurnID, Outcome{PromptTokens: 6000, CachedTokens: cached, OutputTokens: 10})
	}
	run(1, 2*time.Second, 0)
	if got := r.replica("r0").PrefillRate; got != 3000 {
		t.Fatalf("rate %.0f tokens/s, want 3,000", got)
	}
	run(2, 100*time.Millisecond, 5900) // too little work to tell
	other := r.place(Turn{Key: key(3), PromptTokens: 6000})
	run(4, 20*time.Second, 0) // shared the engine
	r.finish(other.TurnID, Outcome{CachedTokens: -1})
	if got := r.replica("r0").PrefillRate; got != 3000 {
		t.Errorf("rate %.0f tokens/s, moved by turns that say nothing", got)
	}
}

func TestUsersWaitFairly(t *testing.T) {
	set := fleet(1)
	set[0].MaxNumSeqs = 1 // holds two
	r := newRig(t, Config{}, set...)
	held := []uint64{
		r.place(Turn{Key: key(0), APIKey: "greedy", PromptTokens: 1000}).TurnID,
		r.place(Turn{Key: key(1), APIKey: "greedy", PromptTokens: 1000}).TurnID,
	}
	var greedy, modest []uint64
	for i := range 10 {
		greedy = append(greedy, r.arrive(Turn{Key: key(10 + i), APIKey: "greedy", PromptTokens: 1000}))
	}
	for i := range 3 {
		modest = append(modest, r.arrive(Turn{Key: key(30 + i), APIKey: "modest", PromptTokens: 1000}))
	}
	if q := r.p.View(r.now).Queue; q[0].TurnID != modest[0] {
		t.Errorf("first in the queue is turn %d, want the first of the user who has had nothing", q[0].TurnID)
	}
	served := 0
	for n := 0; n < 7; n++ {
		r.finish(held[0], Outcome{PromptTokens: 1000, OutputTokens: 10, CachedTokens: -1})
		held = held[1:]
		for id := range r.held {
			known := false
			for _, h := range held {
				known = known || h == id
			}
			if !known {
				held = append(held, id)
			}
		}
	}
	for _, id := range modest {
		if !r.waiting[id] {
			served++
		}
	}
	if served != 3 {
		t.Errorf("%d of 3 turns of the modest user were served among the first 7", served)
	}
	if r.waiting[greedy[0]] {
		t.Error("the greedy user got nothing at all")
	}
}

func TestViewLatest(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	for i := range 5 {
		r.turn(Turn{Key: key(i), PromptTokens: 100})
	}
	for ask, want := range map[int]int{-1: 0, 0: 0, 2: 2, 9: 5} {
		v := r.p.ViewLatest(r.now, ask)
		if len(v.Sessions) != want || v.SessionsKnown != 5 {
			t.Errorf("asked for %d: %d shown of %d known", ask, len(v.Sessions), v.SessionsKnown)
		}
	}
	if got := r.p.ViewLatest(r.now, 1).Sessions[0].Key; got != key(4) {
		t.Errorf("shows %s, which was not seen last", got)
	}
}

// A conversation that pauses for longer than an agent's tools do is no longer
// part of what its replica's cache needs now.
func TestRecentConversations(t *testing.T) {
	r := newRig(t, Config{}, fleet(1)...)
	for i := range 3 {
		r.turn(Turn{Key: key(i), PromptTokens: 100})
		r.now = r.now.Add(RecentWindow / 2)
	}
	v := r.p.ViewLatest(r.now, 0).Replicas[0]
	if v.Active != 3 || v.Recent != 2 || v.RecentTokens*3 != v.SessionTokens*2 || v.RecentTokens == 0 {
		t.Errorf("%d of %d conversations, %d of %d tokens are recent", v.Recent, v.Active, v.RecentTokens, v.SessionTokens)
	}
	r.turn(Turn{Key: key(0), PromptTokens: 100})
	if v := r.p.ViewLatest(r.now, 0).Replicas[0]; v.Recent != 3 {
		t.Errorf("%d are recent after one came back", v.Recent)
	}
}

func TestViewIsACopy(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	r.turn(Turn{Key: key(1), PromptTokens: 100})
	v := r.p.View(r.now)
	v.Counters.Placements[ReasonNew] = 99
	v.Sessions[0].Tokens = -1
	if got := r.p.View(r.now); got.Counters.Placements[ReasonNew] != 1 || got.Sessions[0].Tokens < 0 {
		t.Error("a change of the view changed the Placer")
	}
}
