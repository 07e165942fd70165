package placement

import (
	"fmt"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// rig drives a Placer as the router does and checks, after every step, what
// must always hold.
type rig struct {
	t      *testing.T
	p      *Placer
	now    time.Time
	nextID uint64
	// held is the rig's own count of dispatched turns, by turn.
	held    map[uint64]Dispatch
	waiting map[uint64]bool
	ended   map[uint64]string
	wake    time.Time
}

func newRig(t *testing.T, cfg Config, replicas ...Replica) *rig {
	t.Helper()
	r := &rig{
		t: t, p: New(cfg), now: time.Unix(1_000_000, 0),
		held: map[uint64]Dispatch{}, waiting: map[uint64]bool{}, ended: map[uint64]string{},
	}
	r.step(Replicas{replicas})
	return r
}

// fleet is n ready replicas of the reference machine.
func fleet(n int) []Replica {
	var out []Replica
	for i := range n {
		out = append(out, Replica{
			ID: ReplicaID(fmt.Sprintf("r%d", i)), Generation: 1, Accepting: true,
			MaxNumSeqs: 32, KVCapacityTokens: 36_000,
		})
	}
	return out
}

func key(n int) Key { return Key{byte(n >> 8), byte(n), 1} }

func (r *rig) advance(d time.Duration) { r.now = r.now.Add(d) }

func (r *rig) step(ev Event) []Action {
	r.t.Helper()
	actions := r.p.Step(ev, r.now)
	for _, a := range actions {
		r.note(a)
	}
	r.check()
	return actions
}

func (r *rig) note(a Action) {
	r.t.Helper()
	switch a := a.(type) {
	case Dispatch:
		if why, over := r.ended[a.TurnID]; over {
			r.t.Fatalf("turn %d dispatched after %s", a.TurnID, why)
		}
		if _, twice := r.held[a.TurnID]; twice {
			r.t.Fatalf("turn %d dispatched twice", a.TurnID)
		}
		rep := r.p.byID[a.Replica]
		if rep == nil || !rep.Accepting || rep.Generation != a.Generation {
			r.t.Fatalf("turn %d dispatched to %s generation %d, which does not accept", a.TurnID, a.Replica, a.Generation)
		}
		delete(r.waiting, a.TurnID)
		r.held[a.TurnID] = a
	case Queue:
		if a.Position < 1 || a.Why == "" {
			r.t.Fatalf("queue action without position or reason: %+v", a)
		}
		r.waiting[a.TurnID] = true
	case Reject:
		if a.RetryAfter < time.Second || a.RetryAfter > time.Minute || a.RetryAfter%time.Second != 0 {
			r.t.Fatalf("retry after %v is not 1 to 60 whole seconds", a.RetryAfter)
		}
		delete(r.waiting, a.TurnID)
		r.ended[a.TurnID] = "reject " + string(a.Why)
	case WakeAt:
		if !a.At.After(r.now) {
			r.t.Fatalf("asked to wake at %v, which is not after %v", a.At, r.now)
		}
		r.wake = a.At
	}
}

// check compares the Placer's ledgers with the rig's own count.
func (r *rig) check() {
	r.t.Helper()
	want := map[ReplicaID]int{}
	for _, d := range r.held {
		if rep := r.p.byID[d.Replica]; rep != nil && rep.Generation == d.Generation {
			want[d.Replica]++
		}
	}
	for _, rep := range r.p.replicas {
		if rep.Held() != want[rep.ID] {
			r.t.Fatalf("%s holds %d, counted %d", rep.ID, rep.Held(), want[rep.ID])
		}
	}
	if err := ledger.Audit(r.p.sessions, r.p.replicas); err != nil {
		r.t.Fatal(err)
	}
	if r.p.queue.Len() != len(r.waiting) {
		r.t.Fatalf("queue has %d turns, told of %d", r.p.queue.Len(), len(r.waiting))
	}
	if len(r.p.turns) != len(r.held)+len(r.waiting) {
		r.t.Fatalf("%d turns known, %d held and %d waiting", len(r.p.turns), len(r.held), len(r.waiting))
	}
}

// arrive sends a turn and returns its id.
func (r *rig) arrive(in Turn) uint64 {
	r.t.Helper()
	r.nextID++
	in.ID = r.nextID
	r.step(Arrive{in})
	return in.ID
}

// place sends a turn that must go at once and returns where.
func (r *rig) place(in Turn) Dispatch {
	r.t.Helper()
	id := r.arrive(in)
	d, ok := r.held[id]
	if !ok {
		r.t.Fatalf("turn %d of %s was not placed: waiting %v, %s", id, in.Key, r.waiting[id], r.ended[id])
	}
	return d
}

// finish ends a turn as an engine that found all of the session's history.
func (r *rig) finish(id uint64, o Outcome) {
	r.t.Helper()
	if _, ok := r.held[id]; !ok {
		r.t.Fatalf("turn %d is not held", id)
	}
	delete(r.held, id)
	r.ended[id] = "finish"
	r.step(Finish{id, o})
}

func (r *rig) retry(id uint64) {
	r.t.Helper()
	d := r.held[id]
	delete(r.held, id)
	// It waits until it is told otherwise.
	actions := r.p.Step(Retry{id, d.Replica}, r.now)
	for _, a := range actions {
		r.note(a)
	}
	r.check()
}

func (r *rig) cancel(id uint64) {
	r.t.Helper()
	delete(r.held, id)
	delete(r.waiting, id)
	r.ended[id] = "cancel"
	r.step(Cancel{id})
}

// turn runs one turn from arrival to finish and returns where it went.
func (r *rig) turn(in Turn) Dispatch {
	r.t.Helper()
	d := r.place(in)
	r.finish(d.TurnID, measured(in, d))
	return d
}

// measured is the outcome of an engine that agrees with the estimates.
func measured(in Turn, d Dispatch) Outcome {
	return Outcome{
		PromptTokens: in.PromptTokens, CachedTokens: d.ExpectedCached,
		OutputTokens: 100, FinishClass: "stop",
	}
}

func (r *rig) replica(id ReplicaID) ReplicaView {
	r.t.Helper()
	for _, v := range r.p.View(r.now).Replicas {
		if v.ID == id {
			return v
		}
	}
	r.t.Fatalf("no replica %s", id)
	return ReplicaView{}
}

func (r *rig) session(k Key) SessionView {
	r.t.Helper()
	for _, v := range r.p.View(r.now).Sessions {
		if v.Key == k {
			return v
		}
	}
	r.t.Fatalf("no session %s", k)
	return SessionView{}
}
