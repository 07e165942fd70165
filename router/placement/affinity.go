package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// affinity puts a new conversation on the least loaded replica and keeps it
// there.
//
// Formula: a conversation with a live home goes home. It leaves for one turn
// (spill) when its home holds at least the spill limit and another replica
// holds fewer; the home does not change. When the home is gone, does not
// accept, or has just failed this turn, the conversation moves for good
// (failover) to the least loaded replica. On first sight it goes, in this
// order, to the replica that holds the history it was forked from if that is
// below its spill limit (inherit), to a replica that has its system prompt
// cached if one is loaded like the least loaded (root), or to the least loaded
// (new): smallest held turns, then cache fullness, then active conversations.
//
// A home chosen while replicas of the model were missing (starting, failed) was
// no free choice: the first replica that is ready would keep everybody. When
// one arrives, such a conversation is seated again at its next turn, once, if
// the least loaded replica has at least two active conversations fewer
// (rehome). Homes chosen among all replicas never move for an arrival.
//
// Defaults: spill limit a quarter of the engine's batch limit, at least 1.
//
// Trade-offs: nearly all of a conversation is found in the cache as long as the
// conversations of a replica fit its KV cache together. Past that they evict
// each other in turn, every turn is computed whole, and staying home has cost
// the freedom to balance. Counting requests cannot see it: so few fit that the
// spill limit is never reached. That is what admission is for.
func affinity(p *Placer, t *turn, now time.Time) choice {
	if t.session == nil {
		return p.placePlain(t, now)
	}
	home := t.session.HomeNow()
	if home == nil || t.Fresh || !home.Accepting || t.triedOn(home, now) {
		return p.placeHomeless(t, now)
	}
	if r := p.betterSeat(t, home, now); r != nil {
		return choice{to: r, reason: ReasonRehome}
	}
	if home.Held() < SpillLimit(p.cfg.SpillLimit, home.MaxNumSeqs) {
		return choice{to: home, reason: ReasonSticky}
	}
	if r := p.leastLoaded(p.open(t, now), now); r != nil && r.Held() < home.Held() {
		return choice{to: r, reason: ReasonSpill}
	}
	if home.Full() {
		return p.wait(t, now)
	}
	return choice{to: home, reason: ReasonSticky}
}

// placePlain places a turn that belongs to no conversation.
func (p *Placer) placePlain(t *turn, now time.Time) choice {
	if r := p.leastLoaded(p.open(t, now), now); r != nil {
		return choice{to: r, reason: p.plainReason(t, ReasonNew)}
	}
	return p.wait(t, now)
}

// placeHomeless finds a home.
func (p *Placer) placeHomeless(t *turn, now time.Time) choice {
	if t.session.Home() != nil && !t.Fresh {
		if r := p.leastLoaded(p.open(t, now), now); r != nil {
			return choice{to: r, reason: ReasonFailover}
		}
		return p.wait(t, now)
	}
	if r := p.byID[t.Inherit]; r != nil && !t.Fresh && p.eligible(r, t, now) &&
		r.Held() < SpillLimit(p.cfg.SpillLimit, r.MaxNumSeqs) {
		return choice{to: r, reason: ReasonInherit}
	}
	open := p.open(t, now)
	least := p.leastLoaded(open, now)
	if least == nil {
		return p.wait(t, now)
	}
	if r := p.rootNear(t, open, least, now); r != nil && r != least {
		return choice{to: r, reason: ReasonRoot}
	}
	return choice{to: least, reason: ReasonNew}
}

// rootSlackFullness is how much fuller a replica may be, as a share of its
// cache, and still be preferred for having the system prompt. One request more
// in flight is already too much: computing a prompt of a few thousand tokens
// costs less than sharing an engine for the whole conversation.
const rootSlackFullness = 0.05

// rootNear is the least loaded replica that has the turn's root cached, if it
// is loaded about like the least loaded of all.
func (p *Placer) rootNear(t *turn, open []*ledger.Replica, least *ledger.Replica, now time.Time) *ledger.Replica {
	if t.root == nil {
		return nil
	}
	var best *ledger.Replica
	var bestLoad load
	for _, r := range open {
		if t.root.CachedOn(r) == 0 {
			continue
		}
		if l := p.loadOf(r, now); best == nil || l.less(bestLoad) {
			best, bestLoad = r, l
		}
	}
	if best == nil {
		return nil
	}
	ll := p.loadOf(least, now)
	if bestLoad.held > ll.held || bestLoad.fullness > ll.fullness+rootSlackFullness {
		return nil
	}
	return best
}
