package placement

import (
	"cmp"
	"slices"
	"time"
)

// Saved is what is kept of a conversation over a restart of the Placer: enough
// to send its next turn where its prefix is, as long as that process lives.
type Saved struct {
	Key, Parent Key
	Root        uint64
	Home        ReplicaID
	Generation  uint64
	Tokens      int
	Turns       int
	LastSeen    time.Time
}

// Restore brings back conversations of an earlier Placer. One counts when its
// home runs in the same generation; until Replicas has told, it is kept.
type Restore struct{ Sessions []Saved }

func (Restore) isEvent() {}

// Saved copies the conversations that have a living home, in no order.
func (p *Placer) Saved() []Saved {
	saved := make([]Saved, 0, p.sessions.len())
	for _, s := range p.sessions.byKey {
		home := s.homeNow()
		if home == nil {
			continue
		}
		one := Saved{
			Key: s.key, Parent: s.parent, Home: home.ID, Generation: home.Generation,
			Tokens: s.tokens, Turns: s.turns, LastSeen: s.lastSeen,
		}
		if s.root != nil {
			one.Root = s.root.hash
		}
		saved = append(saved, one)
	}
	return saved
}

// restore keeps what is young enough and brings back what it can.
func (p *Placer) restore(saved []Saved, now time.Time) {
	for _, s := range saved {
		if !s.Key.IsZero() && now.Sub(s.LastSeen) <= p.cfg.SessionTTL {
			p.saved = append(p.saved, s)
		}
	}
	slices.SortStableFunc(p.saved, func(a, b Saved) int {
		return cmp.Or(a.LastSeen.Compare(b.LastSeen), slices.Compare(a.Key[:], b.Key[:]))
	})
	p.bringBack(now)
}

// bringBack gives conversations their home as soon as it is known to run. What
// waits for a generation that has passed is forgotten.
func (p *Placer) bringBack(now time.Time) {
	if len(p.saved) == 0 {
		return
	}
	var waiting []Saved
	for _, s := range p.saved {
		r := p.byID[s.Home]
		switch {
		case r == nil || r.Generation < s.Generation:
			waiting = append(waiting, s)
		case r.Generation == s.Generation:
			p.reseat(s, r, now)
		}
	}
	p.saved = waiting
}

// reseat makes the conversation known again, unless it has come back by itself.
func (p *Placer) reseat(saved Saved, r *replica, now time.Time) {
	if s := p.sessions.get(saved.Key); s != nil && s.home != nil {
		return
	}
	p.counters.SessionsEvicted += uint64(p.sessions.evict(p.cfg.MaxSessions))
	s := p.sessions.get(saved.Key)
	if s == nil {
		s = p.sessions.add(saved.Key, minTime(saved.LastSeen, now))
	}
	s.parent, s.turns = saved.Parent, saved.Turns
	if saved.Root != 0 {
		p.sessions.use(s, saved.Root)
	}
	s.leaveLedger()
	s.tokens, s.lastTokens = saved.Tokens, saved.Tokens
	s.joinLedger()
	s.setHome(r)
	s.setServed(r)
	s.seated, s.endedAt = p.arrivals, s.lastSeen
	h := s.holding(r)
	if h == nil {
		h = s.newHolding(r)
	}
	r.cache.pin(h, s.foot())
	r.cache.unpin(h, s.foot())
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
