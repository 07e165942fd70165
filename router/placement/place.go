package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
	"github.com/lm-warden/warden/router/placement/queue"
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
		t.root = p.sessions.Root(t.Root)
		t.prompt = p.promptOf(&t.Turn, nil)
		return
	}
	s := p.sessions.Get(t.Key)
	if s == nil {
		p.counters.SessionsEvicted += uint64(p.sessions.Evict(p.cfg.MaxSessions))
		s = p.sessions.Add(t.Key, now)
	} else {
		p.sessions.Touch(s, now)
	}
	if !t.Parent.IsZero() {
		s.Parent = t.Parent
	}
	p.sessions.Use(s, t.Root)
	t.session, t.root = s, s.Root()
	t.prompt = p.promptOf(&t.Turn, s)
}

// enter places a turn that has no place: a new one, or one that failed.
func (p *Placer) enter(t *turn, now time.Time) {
	if t.Pinned != "" {
		p.placePinned(t, now)
		return
	}
	full := p.queue.Len() >= p.cfg.MaxQueue
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
	t.why = cmp.Or(p.blocked, WhyRetrying)
	p.putInQueue(t, now)
	p.entering = t
}

// tellWaiting reports that the turn of this step could not go at once.
func (p *Placer) tellWaiting() {
	t := p.entering
	if t == nil {
		return
	}
	if at := 1 + slices.Index(p.queue.InOrder(), &t.place); at > 0 {
		p.counters.Queued++
		p.act(Queue{TurnID: t.ID, Position: at, Why: t.why})
	}
}

// putInQueue lets t wait from now on.
func (p *Placer) putInQueue(t *turn, now time.Time) {
	t.place = queue.Place[*turn]{Turn: t, Rank: p.rankOf(t), Since: now, Key: t.APIKey, Work: t.prompt}
	p.queue.Push(&t.place)
	if t.session != nil {
		t.session.Wait(1)
	}
}

// takeFromQueue ends the wait of t, if it waits.
func (p *Placer) takeFromQueue(t *turn) {
	if p.queue.Remove(&t.place) && t.session != nil {
		t.session.Wait(-1)
	}
}

// try asks the policy about a turn before it joins the queue. Only one that may
// pass overtakes those that wait for room.
func (p *Placer) try(t *turn, now time.Time) choice {
	if p.blocked != "" && !p.admission.passes(t) {
		return choice{why: p.blocked, everyone: true}
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
	p.blocked, p.apart = "", false
	if p.queue.Len() == 0 {
		return
	}
	order, apart := p.queue.InOrder(), 0
	for i := 0; i < len(order) && p.blocked == "" && apart < maxApart; {
		t := order[i].Turn
		c := p.place(p, t, now)
		switch {
		case c.to != nil:
			p.takeFromQueue(t)
			p.dispatch(t, c, now)
			p.bringAlong(t.session, now)
			order, i, apart = p.queue.InOrder(), 0, 0
			p.pumps++ // those in front of it claim anew, and not against themselves
		case c.everyone:
			p.blocked = c.why
			tellWhy(order[i:], c.why)
		case c.lane != nil:
			t.why, c.lane.Claimed = c.why, p.pumps
			i++
		default:
			t.why = c.why
			i, apart = i+1, apart+1
		}
	}
	p.apart = apart > 0
}

// tellWhy notes the reason of those that wait behind a blocked one.
func tellWhy(behind []*queue.Place[*turn], why Why) {
	if behind[0].Turn.why == why && behind[len(behind)-1].Turn.why == why {
		return // nothing new: reasons change from the front, turns join at the back
	}
	for _, at := range behind {
		at.Turn.why = why
	}
}

// bringAlong places other waiting turns of a conversation that has just been
// given room: they need none of their own.
func (p *Placer) bringAlong(s *ledger.Session, now time.Time) {
	for i := 0; s != nil && s.Waiting() > 0 && i < p.queue.Len(); {
		t := p.queue.Ranked()[i].Turn
		if t.session != s || !p.admission.passes(t) {
			i++
			continue
		}
		c := p.place(p, t, now)
		if c.to == nil {
			return
		}
		p.takeFromQueue(t)
		p.dispatch(t, c, now)
	}
}

// dispatch reserves the choice and tells the caller.
func (p *Placer) dispatch(t *turn, c choice, now time.Time) {
	r, s := c.to, t.session
	t.cached = p.cachedOn(t, r)
	t.replica, t.reason, t.dispatched, t.firstByte = r, c.reason, now, time.Time{}
	t.alone = r.Held() == 0
	waited := time.Duration(0)
	if since := t.place.Since; !since.IsZero() {
		waited = now.Sub(since)
		t.place.Since = time.Time{}
	}

	r.Begin(t.prompt - t.cached)
	p.counters.Placements[c.reason]++
	p.queue.Serve(t.APIKey, t.prompt-t.cached)

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
	if s != nil && s.Home() != nil {
		d.Home = s.Home().ID
	}
	p.act(d)
}

// settle moves the conversation's home where the reason says so and reports
// whether it had another one.
func (p *Placer) settle(t *turn, now time.Time) (rehomed bool) {
	s, r := t.session, t.replica
	s.Begin()
	p.sessions.Touch(s, now)
	if t.Fresh {
		s.SetTokens(t.prompt)
	} else {
		s.SetTokens(max(s.Tokens(), t.prompt))
	}
	switch {
	case s.Home() == r:
		p.confirmSeat(s, now)
	case t.reason == ReasonSpill, t.reason == ReasonPinned && s.Home() != nil:
		s.Spills++
	default:
		rehomed = s.Home() != nil && t.reason != ReasonBalance
		s.SetHome(r)
		p.takeSeat(s, t.reason, now)
	}
	s.SetServed(r)
	return rehomed
}

// pin tells the cache belief that the turn runs.
func (p *Placer) pin(t *turn) {
	if t.root != nil {
		t.root, t.pinnedRoot = p.sessions.PinRoot(t.root, t.replica)
	}
	if t.session != nil {
		t.pinned = t.session.Pin(t.replica)
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
		p.takeFromQueue(t)
	} else {
		p.release(t, Outcome{CachedTokens: -1, Aborted: true}, now)
	}
	delete(p.turns, id)
}

func (p *Placer) reject(t *turn, why Why) {
	p.takeFromQueue(t)
	delete(p.turns, t.ID)
	p.counters.Rejected++
	p.act(Reject{TurnID: t.ID, Why: why, RetryAfter: p.retryAfter(why)})
}

// refuseOverdue rejects turns that have waited as long as they may.
func (p *Placer) refuseOverdue(now time.Time) {
	for p.queue.Len() > 0 && now.Sub(p.queue.Oldest()) >= p.cfg.MaxWait {
		p.reject(p.queue.Longest().Turn, WhyTimeout)
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
			slots += r.MaxSeqs()
		}
	}
	if slots == 0 {
		return most / 4 * time.Second // start-up takes minutes; ask four times each
	}
	wait := p.turnTime * (1 + float64(p.queue.Len())/float64(slots))
	return time.Duration(min(max(int(wait+0.5), least), most)) * time.Second
}
