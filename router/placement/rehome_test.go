package placement

import "testing"

// gather lets n conversations begin while only the first replica accepts.
func gather(t *testing.T, replicas, n int) (*rig, []Replica) {
	t.Helper()
	set := fleet(replicas)
	for i := range set {
		set[i].Accepting = i == 0
	}
	r := newRig(t, Config{SpillLimit: 100}, set...)
	for i := range n {
		d := r.place(Turn{Key: key(i), PromptTokens: 100})
		r.finish(d.TurnID, Outcome{PromptTokens: 100, OutputTokens: 10, CachedTokens: -1})
	}
	return r, set
}

func (r *rig) homes(n int) (count map[ReplicaID]int, reasons map[Reason]int) {
	r.t.Helper()
	count, reasons = map[ReplicaID]int{}, map[Reason]int{}
	for i := range n {
		d := r.place(Turn{Key: key(i), PromptTokens: 100})
		r.finish(d.TurnID, Outcome{PromptTokens: 100, OutputTokens: 10, CachedTokens: -1})
		count[d.Replica]++
		reasons[d.Reason]++
	}
	return count, reasons
}

func TestEarlyHomesAreSeatedAgainOnceTheOthersArrive(t *testing.T) {
	const sessions = 10
	r, set := gather(t, 4, sessions)
	for i := range set {
		set[i].Accepting = true
	}
	r.step(Replicas{set})
	r.homes(sessions)
	count, reasons := r.homes(sessions)
	for _, rep := range set {
		if n := count[rep.ID]; n < 2 || n > 3 {
			t.Errorf("%s is home of %d of %d conversations: %v", rep.ID, n, sessions, count)
		}
	}
	if reasons[ReasonSticky] != sessions {
		t.Errorf("the turns after the move must stay: %v", reasons)
	}
}

func TestHomesChosenAmongAllStayWhenAReplicaComesBack(t *testing.T) {
	const sessions = 8
	set := fleet(2)
	r := newRig(t, Config{}, set...)
	before, _ := r.homes(sessions)
	down := fleet(2)
	down[1].Accepting = false
	r.step(Replicas{down})
	r.homes(sessions) // those of r1 move to r0
	set[1].Generation = 2
	r.step(Replicas{set})
	if _, reasons := r.homes(sessions); reasons[ReasonSticky] != sessions {
		t.Errorf("nobody moves twice within a minute: %v", reasons)
	}
	r.advance(settleTime)
	after, reasons := r.homes(sessions)
	if after["r0"] < before["r0"] {
		t.Errorf("conversations of r0 moved for the return of r1: %v, then %v", before, after)
	}
	if reasons[ReasonRehome] == 0 || reasons[ReasonRehome] > before["r1"] {
		t.Errorf("only those that r1 lost may go back: %v, then %v (%v)", before, after, reasons)
	}
	if _, again := r.homes(sessions); again[ReasonSticky] != sessions {
		t.Errorf("nobody moves twice for one arrival: %v", again)
	}
}

func TestAHomeOfAFewStays(t *testing.T) {
	r, set := gather(t, 2, 1)
	set[1].Accepting = true
	r.step(Replicas{set})
	if _, reasons := r.homes(1); reasons[ReasonSticky] != 1 {
		t.Errorf("one conversation alone has no reason to move: %v", reasons)
	}
}
