package placement

import "time"

// The Placer calls these at the moments that admission has to know of. They do
// nothing while another policy is on.

// returned learns the gap of a conversation that has come back.
func (a *admission) returned(p *Placer, t *turn, now time.Time) {
	if a == nil || t.session == nil {
		return
	}
	s := t.session
	if s.endedAt.IsZero() || s.inflight > 0 || s.waiting > 0 {
		return
	}
	a.gaps[s.finish].Back(s, s.endedAt, now)
}

// dispatched makes the turn's conversation resident where it went, or counts
// the turn as taking room outside the resident set.
func (a *admission) dispatched(p *Placer, t *turn, now time.Time) {
	if a == nil {
		return
	}
	r, s := t.replica, t.session
	if t.reason == ReasonOverdue {
		r.safety.rotatedAt = now
	}
	if s == nil || s.home != r {
		t.loose = true
		r.loose += t.prompt
		return
	}
	if old := s.resident; old != nil {
		if old == r {
			t.history = min(s.lastTokens, t.prompt)
			return
		}
		old.res.remove(s)
	}
	foot := a.foot(p, s, s.tokens)
	a.makeRoom(p, r, foot, s.root, now)
	r.res.add(r, s, foot)
}

// finished takes the new size of the conversation, learns whether its cache was
// there, and gives way to others where it should.
func (a *admission) finished(p *Placer, t *turn, o Outcome, now time.Time) {
	r, s := t.replica, t.session
	if t.loose {
		t.loose = false
		r.loose -= t.prompt
	}
	if a == nil || s == nil {
		return
	}
	if !s.busy() {
		a.gaps[s.finish].Leave(s, now)
	}
	if s.resident != r || r.gone {
		return
	}
	r.res.resize(s, a.foot(p, s, s.tokens))
	a.judge(r, &r.res.members[s.resIndex], a.horizon(r), now)
	a.observe(p, t, o)
	a.rotate(p, r, s, now)
	a.shed(p, r, now)
}

// observe feeds the safety control with the cached share of a resident's
// history. A history that was edited breaks its own prefix: not the cache's
// fault.
func (a *admission) observe(p *Placer, t *turn, o Outcome) {
	if o.Failed || o.Aborted || o.CachedTokens < 0 || t.history == 0 || t.Fresh {
		return
	}
	if float64(o.CachedTokens) < surpriseShare*float64(t.cached) {
		p.counters.SurpriseMisses++
	}
	t.replica.safety.observe(t.history, min(o.CachedTokens, t.history))
}

// shed releases idle residents while r's residents have outgrown it: they have
// used up the growth that was kept free when they were admitted.
func (a *admission) shed(p *Placer, r *replica, now time.Time) {
	if r.capacity() == 0 {
		return
	}
	admit, shed := p.reserve()
	free := r.handedOut(nil) + (admit-shed)*p.growth*float64(len(r.res.members))
	if float64(r.res.foot) > free {
		const anyWeight, one = 2, 1
		a.releaseUntil(r, free, anyWeight, one, now)
	}
}

// advance does what time alone brings: conversations that did not come back,
// the windows of the safety control, fresh weights.
func (a *admission) advance(p *Placer, now time.Time) {
	if a == nil {
		return
	}
	a.weighings = maxWeighings
	for i := range a.gaps {
		for s, ok := a.gaps[i].Lose(now); ok; s, ok = a.gaps[i].Lose(now) {
			if r := s.residentNow(); r != nil && !s.busy() {
				r.res.remove(s)
			}
		}
	}
	waiting := a.head(p, nil, now) != nil
	for _, r := range p.replicas {
		r.safety.close(waiting, now)
	}
}

// wake asks for refreshed weights while somebody waits for room.
func (a *admission) wake(p *Placer, now time.Time) time.Time {
	if a == nil || a.head(p, nil, now) == nil {
		return time.Time{}
	}
	if !a.ticking.After(now) {
		a.ticking = now.Add(weighEvery)
	}
	if a.settling.After(now) {
		return earlier(a.settling, a.ticking)
	}
	return a.ticking
}
