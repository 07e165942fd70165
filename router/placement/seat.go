package placement

import (
	"slices"
	"time"
)

// A seat is a home as a choice among the replicas there were. One taken while
// some were missing is early: it is looked at once more when one arrives.

// settleTime is how long a conversation that lost its home stays on the next
// one, so that a replica that keeps failing moves nobody more than once a
// minute.
const settleTime = time.Minute

// takeSeat notes among how many the home was chosen.
func (p *Placer) takeSeat(s *session, reason Reason, now time.Time) {
	s.early, s.seated, s.settled = p.missing(), p.arrivals, time.Time{}
	if reason == ReasonFailover {
		s.settled = now.Add(settleTime)
	}
}

// confirmSeat notes that the conversation stayed although it could have moved.
func (p *Placer) confirmSeat(s *session, now time.Time) {
	if !now.Before(s.settled) {
		s.early, s.seated = s.early && p.missing(), p.arrivals
	}
}

// missing reports that a replica of the set does not accept turns.
func (p *Placer) missing() bool {
	return slices.ContainsFunc(p.replicas, func(r *replica) bool { return !r.Accepting })
}

// betterSeat is where a conversation moves whose home was chosen among too few
// replicas, now that there are more; nil when it stays.
func (p *Placer) betterSeat(t *turn, home *replica, now time.Time) *replica {
	s := t.session
	if !s.early || s.seated == p.arrivals || s.inflight > 0 || now.Before(s.settled) {
		return nil
	}
	r := p.leastLoaded(p.open(t, now), now)
	if r == nil || r == home || r.held > home.held || r.active+1 >= home.active {
		return nil
	}
	return r
}
