package placement

import (
	"cmp"
	"slices"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// setReplicas applies a new set: unchanged processes keep their account.
func (p *Placer) setReplicas(set []Replica) {
	next := make([]*ledger.Replica, 0, len(set))
	for _, want := range set {
		r := p.byID[want.ID]
		if r == nil || r.Generation != want.Generation {
			r = ledger.NewReplica(p.rate)
			r.Safety.Overcommit = p.cfg.Admission.Overcommit
		}
		if want.Accepting && !r.Accepting {
			p.arrivals++
		}
		r.Update(want)
		next = append(next, r)
	}
	slices.SortFunc(next, func(a, b *ledger.Replica) int { return cmp.Compare(a.ID, b.ID) })
	next = slices.CompactFunc(next, func(a, b *ledger.Replica) bool { return a.ID == b.ID })

	byID := make(map[ReplicaID]*ledger.Replica, len(next))
	for _, r := range next {
		byID[r.ID] = r
	}
	for _, r := range p.replicas {
		if byID[r.ID] != r {
			p.counters.HomesLost += uint64(r.Homed())
			r.End()
		}
	}
	p.replicas, p.byID = next, byID
	p.hostTier = slices.ContainsFunc(next, func(r *ledger.Replica) bool { return r.HostKVTokens > 0 })
}

// setStats takes what an engine says about itself.
func (p *Placer) setStats(e Stats) {
	r := p.byID[e.Replica]
	if r == nil {
		p.counters.Ignored++
		return
	}
	r.SetStats(e.Engine)
}

// SpillLimit is the number of held turns from which a replica's conversations
// spill: limit when set, else a quarter of maxNumSeqs and at least 1.
func SpillLimit(limit, maxNumSeqs int) int {
	if limit > 0 {
		return limit
	}
	if maxNumSeqs <= 0 {
		maxNumSeqs = ledger.AutoSeqs
	}
	return max(1, maxNumSeqs/4)
}
