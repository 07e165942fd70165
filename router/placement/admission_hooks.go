package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// The Placer calls these at the moments that admission has to know of. They do
// nothing while another policy is on.

// returned learns the gap of a conversation that has come back, and notes whether
// it was still promised its cache.
func (a *admission) returned(p *Placer, t *turn, now time.Time) {
	if a == nil || t.session == nil {
		return
	}
	s := t.session
	if s.EndedAt().IsZero() || s.InFlight() > 0 || s.Waiting() > 0 {
		return
	}
	if r := s.Resident(); r != nil {
		t.faded = a.gaps[s.Finish()].Returns(s.EndedAt(), now, a.horizon(r)) < ledger.LikelyGone
	}
	a.gaps[s.Finish()].Back(s, s.EndedAt(), now)
}

// dispatched makes the turn's conversation resident where it went, or counts
// the turn as taking room outside the resident set.
func (a *admission) dispatched(p *Placer, t *turn, now time.Time) {
	if a == nil {
		return
	}
	r, s := t.replica, t.session
	if t.reason == ReasonOverdue {
		r.Safety.Disturb(now, pause(p, r.Rate.Took(float64(t.prompt))))
	}
	if s == nil || s.Home() != r {
		t.loose = true
		r.Residents.Loosen(t.prompt)
		return
	}
	if old := s.Resident(); old != nil {
		if old == r {
			t.history = min(s.LastTokens, t.prompt)
			return
		}
		old.Release(s)
	}
	foot := a.foot(p, s, s.Tokens())
	a.makeRoom(p, r, foot, s.Root(), now)
	r.Admit(s, foot)
}

// finished takes the new size of the conversation, learns whether its cache was
// there, and gives way to others where it should.
func (a *admission) finished(p *Placer, t *turn, o Outcome, now time.Time) {
	r, s := t.replica, t.session
	if t.loose {
		t.loose = false
		r.Residents.Loosen(-t.prompt)
	}
	if a == nil || s == nil {
		return
	}
	if !s.Busy() {
		a.gaps[s.Finish()].Leave(s, now)
	}
	if s.Resident() != r || r.Gone() {
		return
	}
	r.Residents.Resize(s, a.foot(p, s, s.Tokens()))
	a.judge(r, s, now)
	a.observe(p, t, o)
	a.rotate(p, r, s, now)
	a.shed(p, r, now)
}

// observe feeds the safety control with the cached share of a resident's
// history. A history that was edited breaks its own prefix: not the cache's fault.
// Nor is what others took of one who was likely gone: that was the intention.
func (a *admission) observe(p *Placer, t *turn, o Outcome) {
	if o.Failed || o.Aborted || o.CachedTokens < 0 || t.history == 0 || t.Fresh || t.faded {
		return
	}
	if float64(o.CachedTokens) < surpriseShare*float64(t.cached) {
		p.counters.SurpriseMisses++
	}
	t.replica.Safety.Observe(t.history, min(o.CachedTokens, t.history))
}

// shed releases idle residents while r's residents have outgrown it: they have
// used up the growth that was kept free when they were admitted.
func (a *admission) shed(p *Placer, r *ledger.Replica, now time.Time) {
	if r.Capacity() == 0 {
		return
	}
	admit, shed := p.reserve()
	free := r.Room(nil) + (admit-shed)*p.growth*float64(r.Residents.Len()) + shedSlack*float64(r.Capacity())
	if float64(r.Residents.Foot()) > free {
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
			if r := s.Resident(); r != nil && !s.Busy() {
				r.Release(s)
			}
		}
	}
	waiting := a.queued(p)
	for _, r := range p.replicas {
		r.Safety.Close(waiting, now)
	}
}

// wake asks for refreshed weights while somebody waits for room.
func (a *admission) wake(p *Placer, now time.Time) time.Time {
	if a == nil || !a.queued(p) {
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
