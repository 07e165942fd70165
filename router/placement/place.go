package placement

import (
	"cmp"
	"slices"
	"time"
)

// arrive takes a new turn: it goes at once or waits.
func (p *Placer) arrive(in Turn, now time.Time) {
	if p.turns[in.ID] != nil {
		p.counters.Ignored++
		return
	}
	if in.Arrived.IsZero() || in.Arrived.After(now) {
		in.Arrived = now
	}
	t := &turn{Turn: in}
	p.turns[in.ID] = t
	p.recognise(t, now)
	p.admission.returned(p, t, now)
	p.enter(t, now)
}

// recognise finds or makes the turn's conversation.
func (p *Placer) recognise(t *turn, now time.Time) {
	if t.Key.IsZero() || t.Class == ClassAuxiliary {
		t.root = p.sessions.roots[t.Root]
		t.prompt = p.promptOf(&t.Turn, nil)
		return
	}
	s := p.sessions.get(t.Key)
	if s == nil {
		p.counters.SessionsEvicted += uint64(p.sessions.evict(p.cfg.MaxSessions))
		s = p.sessions.add(t.Key, now)
	} else {
		p.sessions.touch(s, now)
	}
	if !t.Parent.IsZero() {
		s.parent = t.Parent
	}
	p.sessions.use(s, t.Root)
	t.session, t.root = s, s.root
	t.prompt = p.promptOf(&t.Turn, s)
}

// enter places a turn that has no place: a new one, or one that failed.
func (p *Placer) enter(t *turn, now time.Time) {
	if t.Pinned != "" {
		p.placePinned(t, now)
		return
	}
	full := p.queue.len() >= p.cfg.MaxQueue
	if full || p.admission.passes(t) {
		if c := p.try(t, now); c.to != nil {
			p.dispatch(t, c, now)
			return
		}
	}
	if full {
		p.reject(t, WhyQueueFull)
		return
	}
	t.queued, t.rank, t.why = now, p.rankOf(t), cmp.Or(p.queue.blocked, WhyRetrying)
	p.queue.push(t)
	p.entering = t
}

// tellWaiting reports that the turn of this step could not go at once.
func (p *Placer) tellWaiting() {
	t := p.entering
	if t == nil {
		return
	}
	if at := 1 + slices.Index(p.order(), t); at > 0 {
		p.counters.Queued++
		p.act(Queue{TurnID: t.ID, Position: at, Why: t.why})
	}
}

// try asks the policy about a turn before it joins the queue. Only one that may
// pass overtakes those that wait for room.
func (p *Placer) try(t *turn, now time.Time) choice {
	if p.queue.blocked != "" && !p.admission.passes(t) {
		return choice{why: p.queue.blocked, everyone: true}
	}
	return p.place(p, t, now)
}

// placePinned serves a turn whose state lives in one process. It never waits:
// when that process does not accept turns, its state is gone or going.
func (p *Placer) placePinned(t *turn, now time.Time) {
	r := p.byID[t.Pinned]
	if r == nil || !r.Accepting || t.triedOn(r, now) ||
		(t.PinnedGeneration != 0 && t.PinnedGeneration != r.Generation) {
		p.reject(t, WhyPinnedGone)
		return
	}
	p.dispatch(t, choice{to: r, reason: ReasonPinned}, now)
}

// rankOf is a turn's order in the queue.
func (p *Placer) rankOf(t *turn) time.Time {
	return t.Arrived.Add(-p.admission.advantage(p, t))
}

// maxApart bounds how many turns that wait for reasons of their own are asked
// about in one step.
const maxApart = 64

// pump places waiting turns in order. The first one that cannot go for want of
// room stops it: nobody behind may take the room that the head waits for. One
// that waits for a single replica only claims that one.
func (p *Placer) pump(now time.Time) {
	p.pumps++
	q := &p.queue
	q.blocked, q.apart = "", false
	if q.len() == 0 {
		return
	}
	order, apart := p.order(), 0
	for i := 0; i < len(order) && q.blocked == "" && apart < maxApart; {
		t := order[i]
		c := p.place(p, t, now)
		switch {
		case c.to != nil:
			q.remove(t)
			p.dispatch(t, c, now)
			p.bringAlong(t.session, now)
			order, i, apart = p.order(), 0, 0
		case c.everyone:
			q.blocked = c.why
			tellWhy(order[i:], c.why)
		case c.lane != nil:
			t.why, c.lane.closed = c.why, p.pumps
			i++
		default:
			t.why = c.why
			i, apart = i+1, apart+1
		}
	}
	q.apart = apart > 0
}

// tellWhy notes the reason of those that wait behind a blocked one.
func tellWhy(behind []*turn, why Why) {
	if behind[0].why == why && behind[len(behind)-1].why == why {
		return // nothing new: reasons change from the front, turns join at the back
	}
	for _, t := range behind {
		t.why = why
	}
}

// bringAlong places other waiting turns of a conversation that has just been
// given room: they need none of their own.
func (p *Placer) bringAlong(s *session, now time.Time) {
	for i := 0; s != nil && s.waiting > 0 && i < len(p.queue.turns); {
		t := p.queue.turns[i]
		if t.session != s || !p.admission.passes(t) {
			i++
			continue
		}
		c := p.place(p, t, now)
		if c.to == nil {
			return
		}
		p.queue.remove(t)
		p.dispatch(t, c, now)
	}
}

// dispatch reserves the choice and tells the caller.
func (p *Placer) dispatch(t *turn, c choice, now time.Time) {
	r, s := c.to, t.session
	t.cached = p.cachedOn(t, r)
	t.replica, t.reason, t.dispatched, t.firstByte = r, c.reason, now, time.Time{}
	t.alone = r.held == 0
	waited := time.Duration(0)
	if !t.queued.IsZero() {
		waited = now.Sub(t.queued)
		t.queued = time.Time{}
	}

	r.held++
	r.placed++
	r.prefill += t.prompt - t.cached
	p.counters.Placements[c.reason]++
	p.fair.serve(t.APIKey, t.prompt-t.cached, p.queue.keys)

	rehomed := false
	if s != nil {
		rehomed = p.settle(t, now)
	}
	p.pin(t)
	p.admission.dispatched(p, t, now)
	d := Dispatch{
		TurnID: t.ID, Replica: r.ID, Generation: r.Generation, Reason: c.reason,
		Rehomed: rehomed, Waited: waited, ExpectedCached: t.cached, ExpectedUncached: max(t.prompt-t.cached, 0),
	}
	if s != nil && s.home != nil {
		d.Home = s.home.ID
	}
	p.act(d)
}

// settle moves the conversation's home where the reason says so and reports
// whether it had another one.
func (p *Placer) settle(t *turn, now time.Time) (rehomed bool) {
	s, r := t.session, t.replica
	s.turns++
	s.inflight++
	s.noteBusy()
	p.sessions.touch(s, now)
	s.leaveLedger()
	if s.tokens = max(s.tokens, t.prompt); t.Fresh {
		s.tokens = t.prompt
	}
	s.joinLedger()
	switch {
	case s.home == r:
		p.confirmSeat(s, now)
	case t.reason == ReasonSpill, t.reason == ReasonPinned && s.home != nil:
		s.spills++
	default:
		rehomed = s.home != nil && t.reason != ReasonBalance
		s.setHome(r)
		p.takeSeat(s, t.reason, now)
	}
	s.setServed(r)
	return rehomed
}

// pin tells the cache belief that the turn runs.
func (p *Placer) pin(t *turn) {
	r := t.replica
	if rt := t.root; rt != nil {
		rt.users++
		h := rt.holdings[r]
		if h == nil {
			h = &holding{root: rt, replica: r}
			rt.holdings[r] = h
		}
		r.cache.pin(h, rt.tokens)
		t.pinnedRoot = h
	}
	if s := t.session; s != nil {
		h := s.holding(r)
		if h == nil {
			h = s.newHolding(r)
		}
		r.cache.pin(h, s.foot())
		t.pinned = h
	}
}

// retry ends a failed attempt and looks for another place.
func (p *Placer) retry(e Retry, now time.Time) {
	t := p.turns[e.TurnID]
	if t == nil || t.replica == nil || t.replica.ID != e.Failed {
		p.counters.Ignored++
		return
	}
	t.attempts = append(t.attempts, attempt{t.replica, now})
	p.release(t, Outcome{CachedTokens: -1, Failed: true}, now)
	if len(t.attempts) >= p.cfg.MaxAttempts {
		p.reject(t, WhyFailed)
		return
	}
	p.enter(t, now)
}

// cancel ends a turn whose client left.
func (p *Placer) cancel(id uint64, now time.Time) {
	t := p.turns[id]
	if t == nil {
		p.counters.Ignored++
		return
	}
	p.counters.Cancelled++
	if t.replica == nil {
		p.queue.remove(t)
	} else {
		p.release(t, Outcome{CachedTokens: -1, Aborted: true}, now)
	}
	delete(p.turns, id)
}

func (p *Placer) reject(t *turn, why Why) {
	p.queue.remove(t)
	delete(p.turns, t.ID)
	p.counters.Rejected++
	p.act(Reject{TurnID: t.ID, Why: why, RetryAfter: p.retryAfter(why)})
}

// refuseOverdue rejects turns that have waited as long as they may.
func (p *Placer) refuseOverdue(now time.Time) {
	for p.queue.len() > 0 && now.Sub(p.queue.oldest) >= p.cfg.MaxWait {
		i := slices.IndexFunc(p.queue.turns, func(t *turn) bool { return t.queued.Equal(p.queue.oldest) })
		p.reject(p.queue.turns[i], WhyTimeout)
	}
}

// retryAfter tells a refused client when to come back: when the queue ahead is
// likely to have moved by a full round of the replicas.
func (p *Placer) retryAfter(why Why) time.Duration {
	const least, most = 1, 60
	if why == WhyPinnedGone || why == WhyFailed {
		return least * time.Second
	}
	slots := 0
	for _, r := range p.replicas {
		if r.Accepting {
			slots += r.maxSeqs()
		}
	}
	if slots == 0 {
		return most / 4 * time.Second // start-up takes minutes; ask four times each
	}
	wait := p.turnTime * (1 + float64(p.queue.len())/float64(slots))
	return time.Duration(min(max(int(wait+0.5), least), most)) * time.Second
}
