package placement

import (
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
	"github.com/lm-warden/warden/router/placement/shadow"
	"github.com/lm-warden/warden/router/placement/survival"
)

// admission keeps the working set of each replica inside its KV cache and lets
// the other conversations wait, instead of letting them all evict each other.
//
// Formula: a conversation is resident on one replica or none. Turns of
// residents go home at once. Any other turn waits until a replica has room for
// its whole conversation,
//
//	sum over residents of weight x footprint + footprint <= share x capacity - shared prefixes
//
// where a footprint is the conversation's tokens, without the shared prefix,
// plus growthReserve turns of growth; the weight of a busy resident is 1 and of
// an idle one the probability, learned from the gaps of its class, that it
// comes back while keeping it is cheaper than computing it again; residents
// likely gone (weight < 0.5) are released when their room is wanted. A fork goes
// where its history is, if that has room and is below its spill limit; otherwise
// the cheapest in seconds wins among replicas with room:
//
//	(tokens before first byte + own uncached tokens) / rate
//	  + 0.5 s x turns held + expected cost of what would be evicted
//
// The queue is strict for each replica: the first that fits nowhere claims the
// one where least is missing for it, the next another one, and nobody takes the
// room that another has claimed, so nobody starves and no cache stands half empty
// for one that waits for a larger place. Conversations under way and children of
// running ones rank 15 s earlier than strangers. One with a claim that has waited
// RotateAfter gets the place of residents at the end of their turns, one that has
// waited ForceAfter is placed anywhere. Both disturb an engine no more often than
// RotateShare of its time pays for. With several API keys the queue is fair
// between them (queue/fair.go). See ledger/safety.go for how share follows what
// engines report as lost and for Overcommit, rotation.go for who gives way, and
// hosttier.go for what a tier in host memory changes.
//
// Bound: with q conversations waiting ahead on m replicas, nobody waits longer
// than RotateAfter + q/m x max(computing one again / RotateShare, one turn), and
// from ForceAfter on nothing but that pace of disturbances holds a turn back.
//
// Defaults: AdmissionConfig.
//
// Trade-offs: while everything fits this is affinity with costs instead of
// counts. Past that, turns of residents keep their speed and the machine its
// throughput; the whole wait falls on first turns, so the highest percentiles
// of time to first token are those of the queue. By Little's law nobody can
// have less waiting at that throughput, only spread it over more turns:
// RotateAfter and Overcommit move along that line, at the price of computing again.
type admission struct {
	gaps      [ledger.FinishClasses]*survival.Gaps[*ledger.Session]
	idle      []weighed // scratch
	quotes    []quote   // scratch: of the replicas that the turn in hand may go to
	weighings int       // residents that may still be weighed for a placement in this step
	claims    int       // in the run of the queue claimsIn, lanes not counted
	claimsIn  uint64
	ticking   time.Time // next refresh while somebody waits
	settling  time.Time // when the first in the queue will have waited long enough
}

const (
	// growthReserve turns of growth are kept free for each resident when another
	// is admitted; below shedReserve turns residents have to go. Found on the
	// ladder: more (2) keeps three conversations where four nearly fit, and the
	// p95 of 16 sessions is 38 % higher; less (1) keeps four where three fit, and
	// 36,000 tokens a replica serve 4 % fewer turns.
	growthReserve = 1.5
	shedReserve   = 1
	// shedSlack is the part of a cache by which residents may outgrow that before
	// one has to go: computing so much again costs less than a conversation that
	// is sent away, waits and computes everything again. It tells where turns are
	// short and a turn of growth is next to nothing: found on the ladder, without
	// it each conversation of 30 short turns is sent away once, and their p95 is
	// 14 s instead of 4 s. 0.03 costs them 2 % of the throughput and gains little.
	shedSlack = 0.02
	// headStart is how much earlier than strangers those rank who have been
	// served before or whose parent is being served: their wait holds up more.
	// In simulation an unbounded one takes the waits from turns that come back
	// and adds them to first turns.
	headStart = 15 * time.Second
	// heldCost is the price of sharing an engine with one more turn, in seconds:
	// decoding slows down. It decides where little else is between two replicas.
	heldCost = 0.5
	// evictionLook bounds how many conversations a placement looks at as
	// candidates for eviction: about twice what a cache of the reference machine
	// holds in all.
	evictionLook = 8
	// maxWeighings bounds the residents looked at for placements in one step, up
	// to one replica's more, to about 20 µs; replicas beyond that are judged by
	// what they weighed before.
	maxWeighings = 64
)

// enter takes over from another policy: the most recent conversations stay
// where they are, as far as they fit.
func (a *admission) enter(p *Placer) {
	for i := range a.gaps {
		a.gaps[i] = survival.New[*ledger.Session]()
	}
	for s := range p.sessions.Active() {
		r := s.HomeNow()
		if r == nil || (!s.Busy() && p.now.Sub(s.LastSeen()) > survival.Horizon) {
			continue
		}
		foot := a.foot(p, s, s.Tokens())
		if fits, _ := a.room(p, r, foot, s.Root(), p.now); fits || s.InFlight() > 0 {
			r.Admit(s, foot)
		}
	}
}

// leave forgets all residency.
func (a *admission) leave(p *Placer) {
	if a == nil {
		return
	}
	for _, r := range p.replicas {
		r.ReleaseAll()
	}
}

// foot is the room that a conversation of so many tokens needs on a replica.
func (a *admission) foot(p *Placer, s *ledger.Session, tokens int) int {
	admit, _ := p.reserve()
	return s.FootOf(tokens) + int(admit*p.growthOf(s))
}

// advantage is how much earlier than its arrival a turn ranks.
func (a *admission) advantage(p *Placer, t *turn) time.Duration {
	if a == nil || t.session == nil || t.session.Hosted() {
		return 0
	}
	parent := p.sessions.Get(t.session.Parent)
	if t.session.Turns() > 0 || (parent != nil && (parent.InFlight() > 0 || parent.Resident() != nil)) {
		return headStart
	}
	return 0
}

// passes reports that a turn may overtake the queue: its conversation has its
// room already.
func (a *admission) passes(t *turn) bool {
	if a == nil || t.Fresh {
		return false
	}
	r := t.session.Resident()
	return r != nil && r.Accepting
}

// admit is the policy.
func admit(p *Placer, t *turn, now time.Time) choice {
	a, s := p.admission, t.session
	if s == nil {
		return p.placePlain(t, now)
	}
	if r := s.Resident(); r != nil && !t.Fresh && r.Accepting && !t.triedOn(r, now) {
		return a.stay(p, t, r, now)
	}
	lane := a.lane(p, t, now)
	if lane == nil && a.claimed(p) >= maxClaims {
		t.claim = nil
		return choice{why: WhyCache, everyone: true}
	}
	open := a.open(p, t, lane, now)
	if len(open) == 0 {
		return a.none(p, t, lane, now)
	}
	need := a.foot(p, s, max(t.prompt, s.Tokens()))
	if r := a.inherits(p, t, need, now); r != nil {
		return choice{to: r, reason: ReasonInherit}
	}
	undecided := false
	a.quote(len(open))
	best := a.cheapest(p, t, open, now, func(r *ledger.Replica) bool {
		fits, soon := a.room(p, r, need, s.Root(), now)
		undecided = undecided || soon != fits
		return fits
	})
	if best != nil && undecided && a.worthSettling(p, t, open, best, need, now) {
		return choice{why: WhyCache, everyone: true}
	}
	if best != nil {
		return choice{to: best, reason: a.reason(t, best, now)}
	}
	if now.Sub(t.place.Since) >= p.cfg.Admission.ForceAfter {
		due := func(r *ledger.Replica) bool { return a.mayDisturb(r, now) }
		if r := a.cheapest(p, t, open, now, due); r != nil {
			return choice{to: r, reason: ReasonOverdue}
		}
	}
	if lane == nil {
		a.claims++
		lane = a.claim(p, t, open, need)
	}
	t.claim = lane
	return choice{why: WhyCache, lane: lane}
}

// inherits is the replica that holds the history which t was forked from, if t
// is a first turn and may go there.
func (a *admission) inherits(p *Placer, t *turn, need int, now time.Time) *ledger.Replica {
	r := p.byID[t.Inherit]
	if r == nil || t.Fresh || t.session.Home() != nil || !p.eligible(r, t, now) ||
		r.Held() >= SpillLimit(p.cfg.SpillLimit, r.MaxNumSeqs) {
		return nil
	}
	if fits, _ := a.room(p, r, need, t.session.Root(), now); !fits {
		return nil
	}
	return r
}

// open is where t may go: its lane, or any open replica, its home also when it
// is suspect.
func (a *admission) open(p *Placer, t *turn, lane *ledger.Replica, now time.Time) []*ledger.Replica {
	if lane != nil {
		p.scratch = p.scratch[:0]
		if p.eligible(lane, t, now) {
			p.scratch = append(p.scratch, lane)
		}
		return p.scratch
	}
	open := p.open(t, now)
	if home := t.session.HomeNow(); home != nil && home.Suspect && p.eligible(home, t, now) && !t.Fresh {
		open = append(open, home)
	}
	return open
}

// worthSettling reports that a replica which cannot take t only because of turns
// that ended a moment ago would be better than best: then t waits until it is
// clear whether their conversations go on.
func (a *admission) worthSettling(p *Placer, t *turn, open []*ledger.Replica, best *ledger.Replica, need int, now time.Time) bool {
	if now.Sub(t.place.Since) >= settle {
		return false
	}
	p.rotation-- // the same tie-break as for best
	better := a.cheapest(p, t, open, now, func(r *ledger.Replica) bool {
		_, soon := a.room(p, r, need, t.session.Root(), now)
		return soon
	})
	a.settling = t.place.Since.Add(settle)
	return better != best
}

// reason names why a turn that was not resident goes to r.
func (a *admission) reason(t *turn, r *ledger.Replica, now time.Time) Reason {
	s := t.session
	switch {
	case t.why == WhyCache && now.After(t.place.Since):
		return ReasonAdmitted
	case s.Home() == r && !t.Fresh:
		return ReasonSticky
	case s.HomeNow() != nil && !t.Fresh:
		return ReasonAdmitted
	case s.Home() != nil && !t.Fresh:
		return ReasonFailover
	default:
		return ReasonNew
	}
}

// stay serves a resident at home, unless home holds at least the spill limit
// and elsewhere the turn would be through sooner although it has to be computed
// there.
func (a *admission) stay(p *Placer, t *turn, home *ledger.Replica, now time.Time) choice {
	if home.Held() >= SpillLimit(p.cfg.SpillLimit, home.MaxNumSeqs) {
		open := p.open(t, now)
		a.quote(len(open))
		away := a.cheapest(p, t, open, now, func(r *ledger.Replica) bool { return r.Held() < home.Held() })
		if away != nil && (home.Full() || a.total(p, t, away, now) < a.cost(t, home, p.cachedOn(t, home))) {
			return choice{to: away, reason: ReasonSpill}
		}
	}
	if home.Full() {
		return p.wait(t, now)
	}
	return choice{to: home, reason: ReasonSticky}
}

// quote is what a turn costs on one replica, in seconds, as far as that has been
// asked: nothing changes it while the turn is being decided about.
type quote struct {
	cost, evict    float64
	cached         int
	asked, evicted bool
}

// quote begins the decision about a turn that may go to one of n replicas.
func (a *admission) quote(n int) {
	a.quotes = slices.Grow(a.quotes[:0], n)[:n]
	clear(a.quotes)
}

// cheapest is the replica of set that passes fits and costs least; nearly equal
// costs are decided by load, so that conversations spread before any cost can
// be seen.
func (a *admission) cheapest(p *Placer, t *turn, set []*ledger.Replica, now time.Time, fits func(*ledger.Replica) bool) *ledger.Replica {
	if len(set) == 0 {
		return nil
	}
	start := int(p.rotation % uint64(len(set)))
	p.rotation++
	var best *ledger.Replica
	var bestCost float64
	for i := range set {
		at := (start + i) % len(set)
		r, q := set[at], &a.quotes[at]
		if !fits(r) {
			continue
		}
		if !q.asked {
			q.cached = p.cachedOn(t, r)
			q.cost, q.asked = a.cost(t, r, q.cached), true
		}
		c := q.cost
		if best != nil && c >= bestCost+nearCost {
			continue // evictions can only make it worse
		}
		if !q.evicted {
			q.evict, q.evicted = a.evictionCost(t, r, q.cached, now), true
		}
		c += q.evict
		near := best != nil && c < bestCost+nearCost && c > bestCost-nearCost
		if best == nil || (near && p.loadOf(r, now).less(p.loadOf(best, now))) || (!near && c < bestCost) {
			best, bestCost = r, c
		}
	}
	return best
}

// nearCost is the difference in seconds below which costs count as equal and load
// decides: as much as one more turn that shares the engine. A cost is that of the
// first turn, and a conversation stays for many: the GPU that is idle now gets one
// too many of them. Found on the ladder: with 0.05, 12 sessions lose 0.7 % of their
// turns at 36,000 tokens a replica, and their p95 is 28 % higher beside a GPU that is
// 40 % slower; from 1 on, conversations of very different sizes wait longer.
const nearCost = heldCost

// cost is the expected delay, in seconds, that placing t on r, which has cached
// of its prompt, causes to t itself and to those that it shares the engine with.
func (a *admission) cost(t *turn, r *ledger.Replica, cached int) float64 {
	work := float64(r.Prefill() + t.prompt - cached)
	if hosted := t.session.HostedOn(r); hosted > 0 && !t.Fresh {
		work += hostCost * float64(hosted)
	}
	return work/r.Rate.TokensPerSecond() + heldCost*float64(r.Held())
}

// evictionCost is the expected delay, in seconds, for those whose cache t would
// push out of r, which has cached of its prompt.
func (a *admission) evictionCost(t *turn, r *ledger.Replica, cached int, now time.Time) float64 {
	evicted := 0.0
	r.Displaced(t.prompt-cached, evictionLook, func(h *shadow.Holding, tokens int) {
		evicted += float64(tokens) * a.wanted(h, now)
	})
	return evicted / r.Rate.TokensPerSecond()
}

// total is both costs.
func (a *admission) total(p *Placer, t *turn, r *ledger.Replica, now time.Time) float64 {
	cached := p.cachedOn(t, r)
	return a.cost(t, r, cached) + a.evictionCost(t, r, cached, now)
}

// wanted is the probability that what h holds is asked for again.
func (a *admission) wanted(h *shadow.Holding, now time.Time) float64 {
	s, own := h.Owner.(*ledger.Session)
	if !own || s.Busy() || s.EndedAt().IsZero() {
		return 1
	}
	return a.gaps[s.Finish()].EverReturns(s.EndedAt(), now)
}
