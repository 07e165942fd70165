package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// load is what counts when a replica is chosen, in that order: requests in
// flight, how full the cache is, active conversations.
type load struct {
	held     int
	fullness float64
	active   int
}

// less is the one comparison of loads.
func (a load) less(b load) bool {
	if a.held != b.held {
		return a.held < b.held
	}
	if a.fullness != b.fullness {
		return a.fullness < b.fullness
	}
	return a.active < b.active
}

func (p *Placer) loadOf(r *ledger.Replica, now time.Time) load {
	return load{r.Held(), r.Fullness(now, p.cfg.StatsMaxAge), r.Active()}
}

// eligible reports whether r may be given t at all.
func (p *Placer) eligible(r *ledger.Replica, t *turn, now time.Time) bool {
	return r.Accepting && r.Claimed != p.pumps && !r.Full() && !t.triedOn(r, now)
}

// open is the set of eligible replicas for a turn that has no home there. A
// suspect replica is left out unless fewer than half of the accepting ones
// would stay: when most look wrong, it is the looking that is wrong.
func (p *Placer) open(t *turn, now time.Time) []*ledger.Replica {
	accepting, sound := 0, 0
	for _, r := range p.replicas {
		if r.Accepting {
			accepting++
			if !r.Suspect {
				sound++
			}
		}
	}
	panicking := sound*2 < accepting
	p.scratch = p.scratch[:0]
	for _, r := range p.replicas {
		if p.eligible(r, t, now) && (panicking || !r.Suspect) {
			p.scratch = append(p.scratch, r)
		}
	}
	return p.scratch
}

// leastLoaded picks the least loaded of a set, nil when it is empty. Equal
// loads take turns, so that a burst on idle replicas spreads.
func (p *Placer) leastLoaded(set []*ledger.Replica, now time.Time) *ledger.Replica {
	if len(set) == 0 {
		return nil
	}
	start := int(p.rotation % uint64(len(set)))
	p.rotation++
	best := set[start]
	bestLoad := p.loadOf(best, now)
	for i := 1; i < len(set); i++ {
		r := set[(start+i)%len(set)]
		if l := p.loadOf(r, now); l.less(bestLoad) {
			best, bestLoad = r, l
		}
	}
	return best
}

// whyNone says why no replica can take a turn now, and whether that holds for
// every other turn as well.
func (p *Placer) whyNone(t *turn, now time.Time) (why Why, everyone bool) {
	accepting, free := false, false
	for _, r := range p.replicas {
		if r.Accepting {
			accepting = true
			if !r.Full() {
				free = true
			}
		}
	}
	switch {
	case !accepting:
		return WhyStarting, true
	case !free:
		return WhyFull, true
	default:
		return WhyRetrying, false
	}
}
