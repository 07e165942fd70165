package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
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

// Saved copies the conversations that have a living home, seen latest first.
func (p *Placer) Saved() []Saved {
	saved := make([]Saved, 0, p.sessions.Len())
	for s := range p.sessions.Latest() {
		home := s.HomeNow()
		if home == nil {
			continue
		}
		saved = append(saved, Saved{
			Key: s.Key(), Parent: s.Parent, Root: s.Root().Hash(), Home: home.ID, Generation: home.Generation,
			Tokens: s.Tokens(), Turns: s.Turns(), LastSeen: s.LastSeen(),
		})
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
func (p *Placer) reseat(saved Saved, r *ledger.Replica, now time.Time) {
	if s := p.sessions.Get(saved.Key); s != nil && s.Home() != nil {
		return
	}
	p.counters.SessionsEvicted += uint64(p.sessions.Evict(p.cfg.MaxSessions))
	s := p.sessions.Get(saved.Key)
	if s == nil {
		s = p.sessions.Add(saved.Key, minTime(saved.LastSeen, now))
	}
	s.Parent = saved.Parent
	if saved.Root != 0 {
		p.sessions.Use(s, saved.Root)
	}
	s.Seat.Confirmed = p.arrivals
	s.Recall(saved.Turns, saved.Tokens, r)
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
