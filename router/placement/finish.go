package placement

import "time"

// firstByte ends the prefill of a turn.
func (p *Placer) firstByte(id uint64, now time.Time) {
	t := p.turns[id]
	if t == nil || t.replica == nil || !t.firstByte.IsZero() {
		p.counters.Ignored++
		return
	}
	t.firstByte = now
	t.replica.prefill -= t.prompt - t.cached
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
	r.held--
	if t.firstByte.IsZero() {
		r.prefill -= t.prompt - t.cached
	}
	good := !o.Failed && !o.Aborted
	if good {
		p.turnTime = smooth(p.turnTime, now.Sub(t.dispatched).Seconds())
		p.pace.count(now)
		p.fair.add(t.APIKey, o.OutputTokens)
		p.learnTokens(t, o)
		p.learnRoot(t, o)
		p.learnRate(t, o)
	}
	if s != nil {
		s.inflight--
		p.sessions.touch(s, now)
		s.endedAt, s.finish = now, classOf(o.FinishClass)
		s.noteBusy()
		switch {
		case good:
			p.resize(t, o)
			p.store(t)
		case o.Failed:
			s.forgetPrompt()
		}
	}
	p.unpin(t)
	p.admission.finished(p, t, o, now)
	t.replica = nil
}

// resize takes the conversation's new length.
func (p *Placer) resize(t *turn, o Outcome) {
	s := t.session
	tokens := t.prompt
	if o.PromptTokens > 0 {
		tokens = o.PromptTokens
	}
	tokens += o.OutputTokens
	if s.turns > 1 && tokens > s.lastTokens && s.lastTokens > 0 {
		added := float64(tokens - s.lastTokens)
		s.growth = smooth(s.growth, added)
		p.growth = smooth(p.growth, added)
	}
	s.leaveLedger()
	s.tokens, s.lastTokens = tokens, tokens
	s.joinLedger()
}

// learnRoot takes the cached tokens of a first turn as a report of how much of
// its prompt is shared. Forks say nothing: they share more than the root.
func (p *Placer) learnRoot(t *turn, o Outcome) {
	if t.session == nil || t.session.turns != 1 || t.root == nil || o.CachedTokens <= 0 ||
		t.Inherit != "" || t.Fresh || len(t.attempts) > 0 {
		return
	}
	before := t.root.tokens
	t.root.learn(o.CachedTokens)
	if t.root.tokens == before {
		return
	}
	if h := t.root.holdings[t.replica]; h != nil {
		t.replica.cache.resize(h, t.root.tokens)
	}
}

// learnRate takes the prefill speed from a turn that had its replica to itself.
func (p *Placer) learnRate(t *turn, o Outcome) {
	if !t.alone || t.firstByte.IsZero() || o.CachedTokens < 0 || o.PromptTokens == 0 {
		return
	}
	took, work := t.firstByte.Sub(t.dispatched), o.PromptTokens-o.CachedTokens
	t.replica.rate.learn(work, took)
	p.rate.learn(work, took)
}

// unpin returns the turn's tokens to the least recently used order. The shared
// prefix goes last and so counts as most recent: every conversation uses it.
func (p *Placer) unpin(t *turn) {
	r := t.replica
	if h := t.pinned; h != nil {
		r.cache.unpin(h, t.session.foot())
		if r.gone {
			h.drop()
		}
	}
	if h := t.pinnedRoot; h != nil {
		r.cache.unpin(h, t.root.tokens)
		if r.gone {
			h.drop()
		}
		p.sessions.letGo(t.root)
	}
	t.pinned, t.pinnedRoot = nil, nil
}
