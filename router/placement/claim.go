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
func (a *admission) claim(p *Placer, t *turn, open []*ledger.Replica, need int) *ledger.Replica {
	if t.claim != nil && slices.Contains(open, t.claim) {
		return t.claim
	}
	t.clearing = false
	return slices.MinFunc(open, func(x, y *ledger.Replica) int {
		return cmp.Compare(missing(x, t, need), missing(y, t, need))
	})
}

// maxClaims bounds how many turns of a run of the queue claim a replica: each is
// compared with all replicas, in about 10 µs where there are 64.
const maxClaims = 4

// claimed is how many have done so in this run.
func (a *admission) claimed(p *Placer) int {
	if a.claimsIn != p.pumps {
		a.claimsIn, a.claims = p.pumps, 0
	}
	return a.claims
}

// missing is how many tokens r lacks for t's conversation, which needs so many,
// after all who are likely gone have made room.
func missing(r *ledger.Replica, t *turn, need int) float64 {
	return r.Residents.Firm() + float64(need) - r.Room(t.session.Root())
}

// queued reports that somebody waits for room in a cache.
func (a *admission) queued(p *Placer) bool {
	return slices.ContainsFunc(p.queue.InOrder(), func(at *queue.Place[*turn]) bool { return at.Turn.why == WhyCache })
}
