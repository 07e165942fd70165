package placement

import (
	"testing"
	"time"
)

func TestFirstSightGoesToTheLeastLoaded(t *testing.T) {
	tests := []struct {
		name  string
		setup func(r *rig)
		turn  Turn
		want  ReplicaID
		why   Reason
	}{
		{
			name: "fewest held turns",
			setup: func(r *rig) {
				r.place(Turn{Key: key(1), PromptTokens: 100})
			},
			turn: Turn{Key: key(2), PromptTokens: 100}, want: "r1", why: ReasonNew,
		},
		{
			name: "equal held, less full cache",
			setup: func(r *rig) {
				r.turn(Turn{Key: key(1), PromptTokens: 9000})
				r.turn(Turn{Key: key(2), PromptTokens: 3000})
			},
			turn: Turn{Key: key(3), PromptTokens: 100}, want: "r1", why: ReasonNew,
		},
		{
			name: "held turns count before fullness",
			setup: func(r *rig) {
				r.turn(Turn{Key: key(1), PromptTokens: 9000})
				r.place(Turn{Key: key(2), PromptTokens: 100})
			},
			turn: Turn{Key: key(3), PromptTokens: 100}, want: "r0", why: ReasonNew,
		},
		{
			name: "the engine's own fullness raises ours while it is fresh",
			setup: func(r *rig) {
				r.turn(Turn{Key: key(1), PromptTokens: 3000})
				r.step(Stats{"r1", EngineView{At: r.now, KVUsed: 0.9}})
			},
			turn: Turn{Key: key(2), PromptTokens: 100}, want: "r0", why: ReasonNew,
		},
		{
			name: "and is ignored when it is old",
			setup: func(r *rig) {
				r.turn(Turn{Key: key(1), PromptTokens: 3000})
				r.step(Stats{"r1", EngineView{At: r.now, KVUsed: 0.9}})
				r.advance(4 * time.Second)
			},
			turn: Turn{Key: key(2), PromptTokens: 100}, want: "r1", why: ReasonNew,
		},
		{
			name: "conversations idle for long do not count as load",
			setup: func(r *rig) {
				r.turn(Turn{Key: key(1), PromptTokens: 9000}) // r0
				r.advance(11 * time.Minute)
				r.turn(Turn{Key: key(2), PromptTokens: 100}) // r1, by turn
				r.turn(Turn{Key: key(3), PromptTokens: 200}) // r0
			},
			turn: Turn{Key: key(4), PromptTokens: 100}, want: "r1", why: ReasonNew,
		},
		{
			name:  "no key",
			setup: func(r *rig) { r.place(Turn{Key: key(1)}) },
			turn:  Turn{PromptTokens: 100}, want: "r1", why: ReasonNoKey,
		},
		{
			name:  "auxiliary",
			setup: func(r *rig) { r.place(Turn{Key: key(1)}) },
			turn:  Turn{Key: key(9), Class: ClassAuxiliary}, want: "r1", why: ReasonAux,
		},
		{
			name:  "a fork goes where its history is, loaded or not",
			setup: func(r *rig) { r.place(Turn{Key: key(1)}) },
			turn:  Turn{Key: key(9), Inherit: "r0"}, want: "r0", why: ReasonInherit,
		},
		{
			name: "but not above the spill limit",
			setup: func(r *rig) {
				r.place(Turn{Key: key(1)}) // r0
				r.place(Turn{Key: key(2)}) // r1
				for range 7 {
					r.place(Turn{Key: key(1)})
				}
			},
			turn: Turn{Key: key(9), Inherit: "r0"}, want: "r1", why: ReasonNew,
		},
		{
			name: "a parent is no reason to share its replica",
			setup: func(r *rig) {
				r.place(Turn{Key: key(1)})
			},
			turn: Turn{Key: key(9), Parent: key(1), Class: ClassSubagent}, want: "r1", why: ReasonNew,
		},
		{
			name:  "pinned is hard",
			setup: func(r *rig) { r.place(Turn{Key: key(1)}) },
			turn:  Turn{Key: key(9), Pinned: "r0"}, want: "r0", why: ReasonPinned,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, Config{}, fleet(2)...)
			tt.setup(r)
			d := r.place(tt.turn)
			if d.Replica != tt.want || d.Reason != tt.why {
				t.Errorf("placed on %s (%s), want %s (%s)", d.Replica, d.Reason, tt.want, tt.why)
			}
		})
	}
}

func TestRootIsPreferredAmongEquals(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	a := Turn{Key: key(1), Root: 7, PromptTokens: 5000}
	d := r.place(a)
	r.finish(d.TurnID, Outcome{PromptTokens: 5000, CachedTokens: 4096, OutputTokens: 10}) // r0 learns the root
	r.advance(11 * time.Minute)                                                           // its conversation no longer counts as load
	for i := range 2 {                                                                    // the second would be r1's turn if all were equal
		if d := r.turn(Turn{Key: key(10 + i), Root: 7, PromptTokens: 4200}); d.Replica != "r0" {
			t.Errorf("conversation %d with a known root went to %s (%s)", i, d.Replica, d.Reason)
		}
	}
	busy := r.place(Turn{Key: key(20), Root: 7, PromptTokens: 5000})
	other := r.place(Turn{Key: key(21), Root: 7, PromptTokens: 5000})
	if busy.Replica == other.Replica {
		t.Errorf("two turns at once share %s although the other replica is idle", busy.Replica)
	}
}

func TestRootIsNotWorthAFullerReplica(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	d := r.place(Turn{Key: key(1), Root: 7, PromptTokens: 5000})
	r.finish(d.TurnID, Outcome{PromptTokens: 5000, CachedTokens: 4096, OutputTokens: 10})
	r.turn(Turn{Key: key(1), Root: 7, PromptTokens: 9000}) // r0 holds 5,000 tokens of its own now
	if d := r.turn(Turn{Key: key(2), Root: 7, PromptTokens: 5000}); d.Replica != "r1" || d.Reason != ReasonNew {
		t.Errorf("went to %s (%s), which is 14 %% fuller", d.Replica, d.Reason)
	}
}

func TestStickyAndSpill(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	home := r.turn(Turn{Key: key(1), PromptTokens: 1000}).Replica
	for range 5 {
		if d := r.turn(Turn{Key: key(1), PromptTokens: 1400}); d.Replica != home || d.Reason != ReasonSticky || d.Rehomed {
			t.Fatalf("follow-up turn went to %+v, home is %s", d, home)
		}
	}
	var held []uint64
	for range 8 { // 32/4
		held = append(held, r.place(Turn{Key: key(1), PromptTokens: 10}).TurnID)
	}
	d := r.place(Turn{Key: key(1), PromptTokens: 10})
	if d.Reason != ReasonSpill || d.Replica == home || d.Home != home || d.Rehomed {
		t.Fatalf("turn above the spill limit: %+v", d)
	}
	if v := r.replica(d.Replica); v.Spilled != 1 {
		t.Errorf("%s shows %d spilled conversations, want 1", v.ID, v.Spilled)
	}
	r.finish(held[0], Outcome{CachedTokens: -1})
	if d := r.place(Turn{Key: key(1), PromptTokens: 10}); d.Reason != ReasonSticky || d.Replica != home {
		t.Errorf("below the limit again: %+v", d)
	}
	if v := r.replica(d.Replica); v.Spilled != 0 {
		t.Errorf("%s still shows %d spilled conversations after its return", v.ID, v.Spilled)
	}
}

func TestSpillNeedsAQuieterReplica(t *testing.T) {
	r := newRig(t, Config{SpillLimit: 1}, fleet(2)...)
	a := r.place(Turn{Key: key(1)})
	b := r.place(Turn{Key: key(2)})
	if a.Replica == b.Replica {
		t.Fatal("both on one replica")
	}
	if d := r.place(Turn{Key: key(1)}); d.Reason != ReasonSticky {
		t.Errorf("moved to a replica that holds as many: %+v", d)
	}
}

func TestAutoSpillLimit(t *testing.T) {
	for _, tt := range []struct{ limit, seqs, want int }{
		{0, 32, 8}, {0, 3, 1}, {0, 1, 1}, {0, 0, 64}, {5, 32, 5},
	} {
		if got := SpillLimit(tt.limit, tt.seqs); got != tt.want {
			t.Errorf("SpillLimit(%d, %d) = %d, want %d", tt.limit, tt.seqs, got, tt.want)
		}
	}
}

func TestGenerationChangeMovesOnlyItsConversations(t *testing.T) {
	r := newRig(t, Config{}, fleet(4)...)
	homes := map[Key]ReplicaID{}
	for i := range 40 {
		homes[key(i)] = r.turn(Turn{Key: key(i), PromptTokens: 1000}).Replica
	}
	set := fleet(4)
	set[1].Accepting = false
	r.step(Replicas{set})
	moved := map[ReplicaID]int{}
	for k, home := range homes {
		d := r.turn(Turn{Key: k, PromptTokens: 1400})
		if home != "r1" {
			if d.Replica != home || d.Reason != ReasonSticky {
				t.Errorf("%s lived on %s and went to %s (%s)", k, home, d.Replica, d.Reason)
			}
			continue
		}
		if d.Reason != ReasonFailover || !d.Rehomed {
			t.Errorf("%s lost its home: %+v", k, d)
		}
		moved[d.Replica]++
		homes[k] = d.Replica
	}
	for id, n := range moved {
		if n < 3 || n > 4 {
			t.Errorf("%s took %d of 10 homeless conversations, want them even", id, n)
		}
	}
	set[1].Accepting, set[1].Generation = true, 2
	r.step(Replicas{set})
	for k, home := range homes {
		if d := r.turn(Turn{Key: k, PromptTokens: 1400}); d.Replica != home {
			t.Errorf("%s moved back from %s to %s at once", k, home, d.Replica)
		}
	}
}

func TestHomesLostAreCountedOnce(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	for i := range 6 {
		r.turn(Turn{Key: key(i), PromptTokens: 1000})
	}
	held := r.place(Turn{Key: key(0), PromptTokens: 1000})
	set := fleet(2)
	set[0].Generation, set[1].Generation = 2, 2
	r.step(Replicas{set})
	if got := r.p.View(r.now).Counters.HomesLost; got != 6 {
		t.Errorf("homes lost %d, want 6", got)
	}
	if v := r.replica(held.Replica); v.Held != 0 || v.CachedTokens != 0 || v.Sticky != 0 {
		t.Errorf("new process starts with the old one's ledger: %+v", v)
	}
	r.finish(held.TurnID, Outcome{CachedTokens: -1, Failed: true})
	if d := r.place(Turn{Key: key(0), PromptTokens: 1000}); d.Reason != ReasonFailover || !d.Rehomed {
		t.Errorf("after the restart: %+v", d)
	}
}

func TestSuspectKeepsItsConversationsAndGetsNoNewOnes(t *testing.T) {
	r := newRig(t, Config{}, fleet(4)...)
	first := r.turn(Turn{Key: key(0), PromptTokens: 1000})
	set := fleet(4)
	for i := range set {
		set[i].Suspect = set[i].ID == first.Replica
	}
	r.step(Replicas{set})
	if d := r.turn(Turn{Key: key(0), PromptTokens: 1000}); d.Replica != first.Replica {
		t.Errorf("left its suspect home for %s", d.Replica)
	}
	for i := range 12 {
		if d := r.place(Turn{Key: key(1 + i), PromptTokens: 1000}); d.Replica == first.Replica {
			t.Errorf("new conversation on the suspect replica")
		}
	}
	for i := range set { // three of four
		set[i].Suspect = set[i].ID != first.Replica
	}
	r.step(Replicas{set})
	spread := map[ReplicaID]int{}
	for i := range 12 {
		spread[r.place(Turn{Key: key(100 + i), PromptTokens: 1000}).Replica]++
	}
	if len(spread) != 4 {
		t.Errorf("most replicas look suspect, so all should be used: %v", spread)
	}
}

func TestCompactionIsAFreeMomentToMove(t *testing.T) {
	r := newRig(t, Config{}, fleet(2)...)
	home := r.turn(Turn{Key: key(1), PromptTokens: 9000}).Replica
	r.place(Turn{Key: key(2), Pinned: home})
	d := r.place(Turn{Key: key(1), PromptTokens: 2000, Fresh: true})
	if d.Replica == home || !d.Rehomed || d.Reason != ReasonNew {
		t.Errorf("compacted conversation stayed on its busier home: %+v", d)
	}
	if got := r.session(key(1)).Tokens; got != 2000 {
		t.Errorf("it is counted with %d tokens, want 2000", got)
	}
}

func TestBalanceKeepsConversationsKnown(t *testing.T) {
	r := newRig(t, Config{Policy: PolicyBalance}, fleet(4)...)
	for i := range 24 {
		if d := r.turn(Turn{Key: key(i), PromptTokens: 1000}); d.Reason != ReasonBalance || d.Rehomed {
			t.Fatalf("%+v", d)
		}
	}
	homes := map[Key]ReplicaID{}
	for _, s := range r.p.View(r.now).Sessions {
		homes[s.Key] = s.Home
	}
	r.step(Configure{Config{Policy: PolicyAffinity, SpillLimit: 3}})
	if n := r.p.View(r.now).SessionsKnown; n != 24 {
		t.Fatalf("%d conversations known after the switch, want 24", n)
	}
	if v := r.replica("r0"); v.SpillLimit != 3 {
		t.Errorf("spill limit %d, want 3", v.SpillLimit)
	}
	for k, home := range homes {
		if d := r.turn(Turn{Key: k, PromptTokens: 1000}); d.Reason != ReasonSticky || d.Replica != home {
			t.Errorf("%s was served last by %s and went to %s (%s)", k, home, d.Replica, d.Reason)
		}
	}
}

func TestThousandTurnsOfFortyConversations(t *testing.T) {
	r := newRig(t, Config{}, fleet(4)...)
	type running struct {
		d  Dispatch
		in Turn
	}
	var open []running
	for i := range 1000 {
		in := Turn{Key: key(i % 40), PromptTokens: 2000 + 10*(i/40)}
		open = append(open, running{r.place(in), in})
		if len(open) == 20 { // always 20 in flight
			r.advance(50 * time.Millisecond)
			r.finish(open[0].d.TurnID, measured(open[0].in, open[0].d))
			open = open[1:]
		}
	}
	v := r.p.View(r.now)
	if got := v.Counters.Placements[ReasonSticky]; got != 960 {
		t.Errorf("%d of 960 follow-up turns stayed: %v", got, v.Counters.Placements)
	}
	for _, rep := range v.Replicas {
		if rep.Sticky != 10 || rep.Held < 4 || rep.Held > 6 {
			t.Errorf("%s has %d conversations and holds %d turns, want 10 and 5±1", rep.ID, rep.Sticky, rep.Held)
		}
	}
}

func TestBurstSpreads(t *testing.T) {
	for _, policy := range []string{PolicyBalance, PolicyAffinity, PolicyAdmission} {
		set := fleet(4)
		for i := range set {
			set[i].KVCapacityTokens = 1_000_000 // all fit
		}
		r := newRig(t, Config{Policy: policy, Seed: 3}, set...)
		for i := range 100 {
			r.place(Turn{Key: key(i), PromptTokens: 1000 + i%7, Root: 5})
		}
		low, high := 100, 0
		for _, v := range r.p.View(r.now).Replicas {
			low, high = min(low, v.Held), max(high, v.Held)
		}
		if high-low > 1 {
			t.Errorf("%s: burst of 100 at once spread from %d to %d", policy, low, high)
		}
	}
}
