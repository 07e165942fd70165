package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
	"github.com/lm-warden/warden/router/placement/queue"
)

// A waiting turn that fits nowhere claims one replica: the next room there is kept
// for it, however much it needs, and those behind it may take what is free
// elsewhere. One claim for the whole fleet instead would let every cache stand half
// empty until somewhere there is room for a large conversation.

// none is the choice of a turn that may go nowhere: others claim the room there,
// or something else is in the way.
func (a *admission) none(p *Placer, t *turn, lane *ledger.Replica, now time.Time) choice {
	claimed := func(r *ledger.Replica) bool { return r.Accepting && !r.Full() && r.Claimed == p.pumps }
	switch {
	case lane != nil:
		t.claim = lane
		return choice{why: WhyCache, lane: lane}
	case slices.ContainsFunc(p.replicas, claimed):
		t.claim = nil
		return choice{why: WhyCache, everyone: true}
	default:
		return p.wait(t, now)
	}
}

// claim is the replica of open whose next room is kept for t: the one it claimed
// before, or the one where least is missing. It may still go to any other that
// has room for it first.
func (a *admission) claim(p *Placer, t *turn, open []*ledger.Replica) *ledger.Replica {
	if t.claim != nil && slices.Contains(open, t.claim) {
		return t.claim
	}
	t.clearing = false
	return slices.MinFunc(open, func(x, y *ledger.Replica) int {
		return cmp.Compare(a.missing(p, t, x), a.missing(p, t, y))
	})
}

// missing is how many tokens r lacks for t's conversation, after all who are
// likely gone have made room.
func (a *admission) missing(p *Placer, t *turn, r *ledger.Replica) float64 {
	need := a.foot(p, t.session, max(t.prompt, t.session.Tokens()))
	return r.Residents.Firm() + float64(need) - r.Room(t.session.Root())
}

// queued reports that somebody waits for room in a cache.
func (a *admission) queued(p *Placer) bool {
	return slices.ContainsFunc(p.queue.InOrder(), func(at *queue.Place[*turn]) bool { return at.Turn.why == WhyCache })
}
