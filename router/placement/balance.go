package placement

import "time"

// balance is "affinity off": each turn goes to the least loaded replica.
//
// Formula: the smallest (held turns, cache fullness, active conversations),
// compared in that order among accepting replicas that are not suspect; equal
// loads take turns. A conversation's home follows its latest turn, so that
// affinity can be switched on again at any moment without losing anything.
//
// Defaults: none. The spill limit has no meaning here.
//
// Trade-offs: queues are as even as they can be, which gives the best tail when
// turns share nothing or nothing is ever found again in the cache. A
// conversation that comes back lands on its old replica only by chance, one in
// the number of replicas, so long histories are computed again and again.
func balance(p *Placer, t *turn, now time.Time) choice {
	r := p.leastLoaded(p.open(t, now), now)
	if r == nil {
		return p.wait(t, now)
	}
	return choice{to: r, reason: p.plainReason(t, ReasonBalance)}
}

// plainReason is the reason of a turn without conversation, or else other.
func (p *Placer) plainReason(t *turn, other Reason) Reason {
	switch {
	case t.Class == ClassAuxiliary:
		return ReasonAux
	case t.session == nil:
		return ReasonNoKey
	default:
		return other
	}
}

// wait is the choice of having no choice.
func (p *Placer) wait(t *turn, now time.Time) choice {
	why, everyone := p.whyNone(t, now)
	return choice{why: why, everyone: everyone}
}
