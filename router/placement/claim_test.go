package placement

import (
	"testing"
	"time"
)

// sized is a turn of a conversation that takes so many tokens.
func sized(n, tokens int) Turn { return Turn{Key: key(n), PromptTokens: tokens, Root: 1} }

// One that is too large for what is free claims one replica; others may have what
// is free elsewhere, and nobody what is free there.
func TestAClaimHoldsOneReplica(t *testing.T) {
	r := admissionRig(t, 2, 3)
	a := r.place(sized(1, 20_000))
	b := r.place(sized(2, 15_000))
	large := r.arrive(sized(3, 25_000)) // 10,500 and 15,500 are free
	if !r.waiting[large] {
		t.Fatalf("%+v", r.held[large])
	}
	if d := r.place(sized(4, 9_000)); d.Replica != a.Replica {
		t.Errorf("took the room on %s that the first waits for: %+v", b.Replica, d)
	}
	if id := r.arrive(sized(5, 9_000)); !r.waiting[id] {
		t.Errorf("took the room on %s that the first waits for: %+v", b.Replica, r.held[id])
	}
	r.finish(b.TurnID, Outcome{PromptTokens: 15_000, CachedTokens: -1, FinishClass: "stop"})
	r.forget(2)
	if d, ok := r.held[large]; !ok || d.Replica != b.Replica {
		t.Errorf("held %v, %+v", ok, d)
	}
}

// With every replica claimed nobody goes anywhere, and says what it waits for.
func TestAllReplicasClaimed(t *testing.T) {
	r := admissionRig(t, 2, 1)
	r.place(sized(1, 9_000))
	r.place(sized(2, 9_000))
	for n := 3; n < 7; n++ {
		if id := r.arrive(sized(n, 9_000)); !r.waiting[id] {
			t.Fatalf("%+v", r.held[id])
		}
	}
	small := r.arrive(sized(9, 1_000))
	if !r.waiting[small] {
		t.Errorf("took room that is claimed: %+v", r.held[small])
	}
	for _, q := range r.p.View(r.now).Queue {
		if q.Why != WhyCache {
			t.Errorf("turn %d waits for %q", q.TurnID, q.Why)
		}
	}
}

// A place that takes two residents is made on one replica in one go: room for half
// a conversation on each of two helps nobody.
func TestALargePlaceIsMadeOnOneReplica(t *testing.T) {
	r := admissionRig(t, 2, 3)
	var held []Dispatch
	for i := range 6 {
		held = append(held, r.place(big(i)))
	}
	large := r.arrive(sized(10, 18_000))
	r.advance(61 * time.Second)
	released := map[ReplicaID]int{}
	for i := range held {
		before := r.p.View(r.now).Counters.Rotations
		r.finish(held[i].TurnID, done())
		if r.p.View(r.now).Counters.Rotations == before {
			r.place(big(i)) // still has its place
			continue
		}
		released[held[i].Replica]++
		if r.waiting[large] {
			r.arrive(big(i)) // waits for another
		}
	}
	d, ok := r.held[large]
	if !ok || len(released) != 1 || released[d.Replica] != 2 {
		t.Errorf("placed: %v, on %s; residents that gave way: %v, want two there", ok, d.Replica, released)
	}
}

// Room for the first that is about to be free elsewhere is as good as its claim.
func TestAFittingPlaceNeedsNoClaim(t *testing.T) {
	r := admissionRig(t, 2, 1)
	a, b := r.place(big(1)), r.place(big(2))
	first := r.arrive(big(3))
	claimed := r.p.turns[first].claim.ID
	other := a
	if claimed == a.Replica {
		other = b
	}
	r.advance(61 * time.Second)
	// Both hold a resident of the same size, each more than half of its cache.
	r.p.byID[other.Replica].KVCapacityTokens = 19_500
	r.finish(other.TurnID, done())
	if d, ok := r.held[first]; !ok || d.Replica != other.Replica {
		t.Errorf("held %v, %+v", ok, d)
	}
}

// Residents may outgrow the cache by a little before one has to go.
func TestALittleGrowthSendsNobodyAway(t *testing.T) {
	for _, tt := range []struct {
		name  string
		grown int // tokens that each of three adds; the cache has 30,500
		stay  int
	}{
		{"within what is free", 300, 3},
		{"a fiftieth more", 650, 3}, // 3 x 10,150 + reserve
		{"far more", 2_500, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := admissionRig(t, 1, 3)
			var held []Dispatch
			for i := range 3 {
				held = append(held, r.place(big(i)))
			}
			for _, d := range held {
				o := done()
				o.OutputTokens = tt.grown
				r.finish(d.TurnID, o)
			}
			if got := r.replica("r0").Residents; got != tt.stay {
				t.Errorf("%d residents, want %d", got, tt.stay)
			}
		})
	}
}
