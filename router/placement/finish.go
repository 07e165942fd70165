package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/estimate"
	"github.com/lm-warden/warden/router/placement/ledger"
)

// firstByte ends the prefill of a turn.
func (p *Placer) firstByte(id uint64, now time.Time) {
	t := p.turns[id]
	if t == nil || t.replica == nil || !t.firstByte.IsZero() {
		p.counters.Ignored++
		return
	}
	t.firstByte = now
	t.replica.Prefilled(t.prompt - t.cached)
}

// finish ends a dispatched turn.
func (p *Placer) finish(id uint64, o Outcome, now time.Time) {
	t := p.turns[id]
	if t == nil || t.replica == nil {
		p.counters.Ignored++
		return
	}
	p.release(t, o, now)
	delete(p.turns, id)
}

// release takes a turn off its replica, exactly once, and learns from it.
func (p *Placer) release(t *turn, o Outcome, now time.Time) {
	r, s := t.replica, t.session
	r.Finish()
	if t.firstByte.IsZero() {
		r.Prefilled(t.prompt - t.cached)
	}
	good := !o.Failed && !o.Aborted
	if good {
		p.turnTime = estimate.Smooth(p.turnTime, now.Sub(t.dispatched).Seconds())
		p.pace.Count(now)
		p.queue.Charge(t.APIKey, o.OutputTokens)
		p.learnTokens(t, o)
		p.learnRoot(t, o)
		p.learnRate(t, o)
	}
	if s != nil {
		p.sessions.Touch(s, now)
		s.End(now, ledger.ClassOf(o.FinishClass))
		switch {
		case good:
			p.resize(t, o)
			s.Store(r, max(t.prompt-t.root.Tokens(), 0))
		case o.Failed:
			s.ForgetPrompt()
		}
	}
	p.unpin(t)
	p.admission.finished(p, t, o, now)
	t.replica = nil
}

// unpin returns the turn's tokens to the least recently used order. The shared
// prefix goes last and so counts as most recent: every conversation uses it.
func (p *Placer) unpin(t *turn) {
	if h := t.pinned; h != nil {
		h.Unpin(t.session.Foot())
	}
	if h := t.pinnedRoot; h != nil {
		p.sessions.UnpinRoot(t.root, h)
	}
	t.pinned, t.pinnedRoot = nil, nil
}
