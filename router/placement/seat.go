package placement

import (
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// A seat is a home as a choice among the replicas there were. One taken while
// some were missing is early: it is looked at once more when one arrives.

// settleTime is how long a conversation that lost its home stays on the next
// one, so that a replica that keeps failing moves nobody more than once a
// minute.
const settleTime = time.Minute

// takeSeat notes among how many the home was chosen.
func (p *Placer) takeSeat(s *ledger.Session, reason Reason, now time.Time) {
	s.Seat = ledger.Seat{Early: p.missing(), Confirmed: p.arrivals}
	if reason == ReasonFailover {
		s.Seat.Settled = now.Add(settleTime)
	}
}

// confirmSeat notes that the conversation stayed although it could have moved.
func (p *Placer) confirmSeat(s *ledger.Session, now time.Time) {
	if !now.Before(s.Seat.Settled) {
		s.Seat.Early, s.Seat.Confirmed = s.Seat.Early && p.missing(), p.arrivals
	}
}

// missing reports that a replica of the set does not accept turns.
func (p *Placer) missing() bool {
	return slices.ContainsFunc(p.replicas, func(r *ledger.Replica) bool { return !r.Accepting })
}

// betterSeat is where a conversation moves whose home was chosen among too few
// replicas, now that there are more; nil when it stays.
func (p *Placer) betterSeat(t *turn, home *ledger.Replica, now time.Time) *ledger.Replica {
	s := t.session
	if !s.Seat.Early || s.Seat.Confirmed == p.arrivals || s.InFlight() > 0 || now.Before(s.Seat.Settled) {
		return nil
	}
	r := p.leastLoaded(p.open(t, now), now)
	if r == nil || r == home || r.Held() > home.Held() || r.Active()+1 >= home.Active() {
		return nil
	}
	return r
}
