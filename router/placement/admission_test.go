package placement

import (
	"fmt"
	"testing"
	"time"
)

// cacheFleet has room for n conversations of 10,000 tokens on each replica.
func cacheFleet(replicas, n int) []Replica {
	set := fleet(replicas)
	for i := range set {
		set[i].KVCapacityTokens = 10_000*n + 500
	}
	return set
}

func admissionRig(t *testing.T, replicas, fit int) *rig {
	t.Helper()
	return newRig(t, Config{Policy: PolicyAdmission}, cacheFleet(replicas, fit)...)
}

// big is a turn whose conversation takes a place for 10,000 tokens.
func big(n int) Turn { return Turn{Key: key(n), PromptTokens: 9_500, Root: 1} }

// done ends a turn without any growth. Its cached tokens were not measured.
func done() Outcome {
	return Outcome{PromptTokens: 9_500, CachedTokens: -1, OutputTokens: 0, FinishClass: "tool_calls"}
}

func TestAsManyAsFitAndNoMore(t *testing.T) {
	r := admissionRig(t, 2, 3)
	for i := range 6 {
		r.place(big(i))
	}
	id := r.arrive(big(7))
	if !r.waiting[id] {
		t.Fatalf("a seventh conversation was placed: %+v", r.held[id])
	}
	if q := r.p.View(r.now).Queue[0]; q.Why != WhyCache || q.NeedTokens != 9_500 {
		t.Errorf("%+v", q)
	}
	for _, v := range r.p.View(r.now).Replicas {
		if v.Residents != 3 || v.Held != 3 {
			t.Errorf("%s: %d residents, %d held", v.ID, v.Residents, v.Held)
		}
	}
}

func TestResidentsOvertakeTheQueue(t *testing.T) {
	r := admissionRig(t, 1, 2)
	a, b := r.place(big(1)), r.place(big(2))
	stranger := r.arrive(big(3))
	r.finish(a.TurnID, done())
	if d := r.place(big(1)); d.Reason != ReasonSticky {
		t.Errorf("%+v", d)
	}
	// A second turn of a resident at the same time needs no room either.
	if d := r.place(big(2)); d.Reason != ReasonSticky {
		t.Errorf("%+v", d)
	}
	if !r.waiting[stranger] {
		t.Error("the stranger was placed on top")
	}
	r.finish(b.TurnID, done())
}

func TestTurnsOfOneConversationWaitTogether(t *testing.T) {
	r := admissionRig(t, 1, 1)
	a := r.place(big(1))
	first, other, second := r.arrive(big(2)), r.arrive(big(3)), r.arrive(big(2))
	r.finish(a.TurnID, done())
	r.forget(1)
	if _, ok := r.held[first]; !ok {
		t.Fatal("the first in the queue did not get the place")
	}
	if _, ok := r.held[second]; !ok {
		t.Error("another turn of the same conversation still waits")
	}
	if !r.waiting[other] {
		t.Error("a conversation without room was placed")
	}
}

// forget lets so much time pass that conversation n is believed gone.
func (r *rig) forget(int) {
	r.t.Helper()
	for range 130 {
		r.advance(500 * time.Millisecond)
		r.step(Tick{})
	}
}

func TestPlacesOfThoseLikelyGoneAreTaken(t *testing.T) {
	r := admissionRig(t, 1, 2)
	a, b := r.place(big(1)), r.place(big(2))
	r.finish(a.TurnID, done())
	stranger := r.arrive(big(3))
	if !r.waiting[stranger] {
		t.Fatal("the place of a conversation that ended a moment ago was taken")
	}
	r.forget(1)
	d, ok := r.held[stranger]
	if !ok || d.Reason != ReasonAdmitted || d.Waited == 0 {
		t.Fatalf("after a minute: held %v, %+v", ok, d)
	}
	if got := r.session(key(1)); got.Resident {
		t.Error("the conversation that gave way is still resident")
	}
	// It comes back: known, not resident, and waits like anybody else.
	t.Logf("%+v", r.p.byID["r0"].Residents)
	back := r.arrive(big(1))
	if !r.waiting[back] {
		t.Error("came back on top of two others")
	}
	r.finish(b.TurnID, done())
	r.forget(2)
	if got := r.held[back]; got.Replica != "r0" {
		t.Errorf("not placed after room came: %+v", got)
	}
}

func TestQueueIsStrict(t *testing.T) {
	r := admissionRig(t, 1, 2)
	r.place(big(1))
	large := r.arrive(Turn{Key: key(2), PromptTokens: 15_000, Root: 1})
	small := r.arrive(Turn{Key: key(3), PromptTokens: 500, Root: 1})
	if !r.waiting[large] || !r.waiting[small] {
		t.Error("a small conversation took the room that a large one waits for")
	}
}

func TestServedAndChildrenRankEarlier(t *testing.T) {
	r := admissionRig(t, 1, 1)
	a := r.place(big(1))
	stranger := r.arrive(big(2))
	r.advance(10 * time.Second)
	child := r.arrive(Turn{Key: key(3), Parent: key(1), Class: ClassSubagent, PromptTokens: 9_500, Root: 1})
	r.advance(10 * time.Second)
	late := r.arrive(Turn{Key: key(4), Parent: key(1), Class: ClassSubagent, PromptTokens: 9_500, Root: 1})
	var order []uint64
	for _, q := range r.p.View(r.now).Queue {
		order = append(order, q.TurnID)
	}
	if fmt.Sprint(order) != fmt.Sprint([]uint64{child, stranger, late}) {
		t.Errorf("order %v: a child ranks 15 s earlier, want %v", order, []uint64{child, stranger, late})
	}
	r.finish(a.TurnID, done())
}

func TestLargerThanACacheIsServedAlone(t *testing.T) {
	r := admissionRig(t, 2, 1)
	giant := Turn{Key: key(1), PromptTokens: 30_000, Root: 1}
	if d := r.place(giant); d.Reason != ReasonNew {
		t.Fatalf("%+v", d)
	}
	r.place(big(2)) // the other replica
	id := r.arrive(Turn{Key: key(3), PromptTokens: 30_000, Root: 1})
	if !r.waiting[id] {
		t.Error("a second giant shares a replica")
	}
}

func TestUnknownCapacityHoldsNothingBack(t *testing.T) {
	set := fleet(2)
	for i := range set {
		set[i].KVCapacityTokens = 0
	}
	r := newRig(t, Config{Policy: PolicyAdmission}, set...)
	for i := range 60 {
		r.place(big(i))
	}
	r.step(Stats{"r0", EngineView{At: r.now, KVCapacityTokens: 20_000}})
	if got := r.replica("r0").CapacityTokens; got != 20_000 {
		t.Errorf("capacity %d after the engine told it", got)
	}
}

func TestForksGoWhereTheirHistoryIs(t *testing.T) {
	r := admissionRig(t, 2, 3)
	a := r.place(big(1))
	fork := Turn{Key: key(2), PromptTokens: 9_500, Root: 1, Inherit: a.Replica}
	if d := r.place(fork); d.Replica != a.Replica || d.Reason != ReasonInherit {
		t.Errorf("%+v", d)
	}
	fork.Key = key(3)
	r.place(fork)
	fork.Key = key(4) // no room left there
	if d := r.place(fork); d.Replica == a.Replica || d.Reason != ReasonNew {
		t.Errorf("%+v", d)
	}
}

func TestSpillInAdmissionNeedsAGain(t *testing.T) {
	set := fleet(2)
	for i := range set {
		set[i].KVCapacityTokens = 1_000_000
	}
	r := newRig(t, Config{Policy: PolicyAdmission, SpillLimit: 2}, set...)
	home := r.turn(big(1)).Replica
	for range 4 {
		d := r.place(Turn{Key: key(1), PromptTokens: 9_700, Root: 1})
		if d.Replica != home {
			t.Fatalf("computed 9,700 tokens elsewhere to save half a second: %+v", d)
		}
	}
	spilled := false
	for range 6 {
		d := r.place(Turn{Key: key(1), PromptTokens: 9_700, Root: 1})
		spilled = spilled || d.Reason == ReasonSpill
	}
	if !spilled {
		t.Error("ten turns at home and none was spilled although the other replica is idle")
	}
}

func TestRotation(t *testing.T) {
	r := admissionRig(t, 1, 3)
	var held []Dispatch
	for i := range 3 {
		held = append(held, r.place(big(i)))
	}
	first, second := r.arrive(big(10)), r.arrive(big(11))
	r.advance(59 * time.Second)
	r.finish(held[0].TurnID, done())
	held[0] = r.place(big(0))
	if !r.waiting[first] {
		t.Fatal("a resident gave way before RotateAfter")
	}
	r.advance(2 * time.Second)
	r.finish(held[1].TurnID, done())
	if d := r.held[first]; d.Reason != ReasonAdmitted {
		t.Fatalf("the first waits on after RotateAfter: %+v", d)
	}
	r.finish(held[2].TurnID, done())
	if !r.waiting[second] {
		t.Error("two rotations at once: their cost is not bounded")
	}
	if got := r.p.View(r.now).Counters.Rotations; got != 1 {
		t.Errorf("%d rotations", got)
	}
	// Whoever gave way waits for its turn like everybody else.
	if id := r.arrive(big(1)); !r.waiting[id] {
		t.Errorf("%+v", r.held[id])
	}
}

func TestNobodyWaitsForEver(t *testing.T) {
	r := admissionRig(t, 1, 1)
	r.place(big(1)) // never ends
	first, second := r.arrive(big(2)), r.arrive(big(3))
	for r.waiting[first] {
		if !r.wake.After(r.now) {
			t.Fatal("nothing would wake the Placer")
		}
		r.now = r.wake
		r.step(Tick{})
	}
	d := r.held[first]
	if d.Reason != ReasonOverdue || d.Waited < 200*time.Second || d.Waited > 201*time.Second {
		t.Fatalf("%+v, ended %q", d, r.ended[first])
	}
	if !r.waiting[second] {
		t.Error("two were forced in at once")
	}
	r.advance(30 * time.Second)
	r.step(Tick{})
	if r.waiting[second] || r.ended[second] != "" {
		t.Errorf("the second: waiting %v, %q", r.waiting[second], r.ended[second])
	}
}

func TestSwitchingPoliciesKeepsHomes(t *testing.T) {
	r := newRig(t, Config{Policy: PolicyAffinity}, cacheFleet(2, 3)...)
	var held []Dispatch
	for i := range 8 { // four a replica, three fit
		held = append(held, r.place(big(i)))
	}
	r.step(Configure{Config{Policy: PolicyAdmission}})
	for _, d := range held {
		r.finish(d.TurnID, done())
	}
	stayed := 0
	for i := range 8 {
		id := r.arrive(big(i))
		if d, ok := r.held[id]; ok && d.Replica == held[i].Replica {
			stayed++
		}
	}
	if stayed != 6 || len(r.waiting) != 2 {
		t.Errorf("%d stayed and %d wait, want 6 and 2", stayed, len(r.waiting))
	}
	r.step(Configure{Config{Policy: PolicyBalance}})
	if len(r.waiting) != 0 {
		t.Errorf("%d still wait for a cache with affinity off", len(r.waiting))
	}
	for _, v := range r.p.View(r.now).Replicas {
		if v.Residents != 0 {
			t.Errorf("%s still has %d residents", v.ID, v.Residents)
		}
	}
}

func TestDisplacedWaitsForItsHostCopy(t *testing.T) {
	set := cacheFleet(2, 2)
	for i := range set {
		set[i].HostKVTokens = 100_000
	}
	r := newRig(t, Config{Policy: PolicyAdmission, Admission: AdmissionConfig{RotateHosted: 5 * time.Second}}, set...)
	var held [4]Dispatch
	for i := range held {
		held[i] = r.place(big(i))
	}
	stranger := r.arrive(big(10))
	r.advance(6 * time.Second)
	r.finish(held[0].TurnID, done()) // gives way: a copy is kept
	home := held[0].Replica
	if d, ok := r.held[stranger]; !ok || d.Replica != home {
		t.Fatalf("held %v, %+v", ok, d)
	}
	back := r.arrive(big(0))
	for i := 1; i < len(held); i++ {
		if held[i].Replica != home {
			r.finish(held[i].TurnID, done())
		}
	}
	r.forget(0) // the other replica is empty by now
	if !r.waiting[back] {
		t.Fatalf("left its host copy on %s: %+v", home, r.held[back])
	}
	if d := r.place(big(11)); d.Replica == home { // another lane is not held up
		t.Errorf("%+v", d)
	}
	r.finish(stranger, done())
	if d, ok := r.held[back]; !ok || d.Replica != home || d.ExpectedCached < 9000 {
		t.Errorf("held %v, %+v", ok, d)
	}
}

func TestLaneClaimsTheNextRoom(t *testing.T) {
	set := cacheFleet(1, 2)
	set[0].HostKVTokens = 100_000
	r := newRig(t, Config{Policy: PolicyAdmission, Admission: AdmissionConfig{RotateHosted: 5 * time.Second}}, set...)
	a, b := r.place(big(0)), r.place(big(1))
	stranger := r.arrive(big(2))
	r.advance(6 * time.Second)
	r.finish(a.TurnID, done())
	back := r.arrive(big(0))
	small := r.arrive(Turn{Key: key(9), PromptTokens: 100, Root: 1})
	if !r.waiting[back] || !r.waiting[small] {
		t.Errorf("waiting: %v; a small conversation took the room that one with a copy here waits for", r.waiting)
	}
	r.finish(b.TurnID, done())
	r.finish(stranger, done())
}

func TestStrangersWaitForTheDustToSettle(t *testing.T) {
	r := admissionRig(t, 2, 2)
	a := r.place(big(1)) // r0
	r.place(big(2))      // r1
	c := r.place(big(3)) // r0 or r1: two there, one on the other
	if a.Replica != c.Replica {
		t.Fatalf("the third went to %s", c.Replica)
	}
	// Both turns of the fuller replica end at this moment. If their
	// conversations are over, it is the better place for a newcomer.
	r.finish(a.TurnID, done())
	r.finish(c.TurnID, done())
	id := r.arrive(big(4))
	if !r.waiting[id] {
		t.Fatalf("placed before it was clear: %+v", r.held[id])
	}
	if got := r.wake.Sub(r.now); got > settle {
		t.Fatalf("wakes in %v, want within %v", got, settle)
	}
	r.now = r.wake
	r.step(Tick{})
	if d, ok := r.held[id]; !ok || d.Waited > settle {
		t.Errorf("held %v, %+v", ok, d)
	}
}
