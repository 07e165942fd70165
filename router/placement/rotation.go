package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// AdmissionConfig tunes the admission policy. Zero fields take their defaults.
type AdmissionConfig struct {
	// RotateAfter is the wait of the first in the queue after which a resident
	// conversation gives up its place at the end of a turn. It must exceed the
	// natural wait (queue position / conversations that fit x their length),
	// or rotation costs more than waiting. Default 120 s.
	RotateAfter time.Duration
	// RotateHosted is the same where a host tier keeps what the resident gives
	// up, so that giving way costs little. Default 0: as long as lets about
	// half of the turns go without waiting.
	RotateHosted time.Duration
	// RotateShare bounds the share of an engine's time that computing rotated
	// conversations again may take, 0 to 1. Default 0.2.
	RotateShare float64
	// ForceAfter places the first in the queue although nothing is free.
	// Default 200 s; it must be below Config.MaxWait to be of use.
	ForceAfter time.Duration
}

func (c AdmissionConfig) withDefaults() AdmissionConfig {
	c.RotateAfter = orDefault(c.RotateAfter, 120*time.Second)
	c.RotateHosted = max(c.RotateHosted, 0)
	c.RotateShare = min(orDefault(c.RotateShare, 0.2), 1)
	c.ForceAfter = orDefault(c.ForceAfter, 200*time.Second)
	return c
}

// again is how long r needs to bring s back from the end of its shared prefix.
func again(r *ledger.Replica, s *ledger.Session) time.Duration {
	hosted := min(s.HostedOn(r), s.Foot())
	return r.Rate.Took(float64(s.Foot()-hosted) + hostCost*float64(hosted))
}

// rotate releases s, whose turn has just ended on r, if the first in the queue
// has waited too long. The pause between two rotations of a replica bounds
// their cost to RotateShare of its time.
func (a *admission) rotate(p *Placer, r *ledger.Replica, s *ledger.Session, now time.Time) {
	head := a.head(p, r, now)
	after := p.cfg.Admission.RotateAfter
	if 2*s.HostedOn(r) > s.Foot() {
		after = a.rotateHosted(p)
	}
	if head == nil || now.Sub(head.place.Since) <= after || s.Busy() {
		return
	}
	if now.Sub(r.Safety.DisturbedAt()) < pause(p, again(r, s)) {
		return
	}
	// What holds more than half a cache cannot make way often enough to help.
	if c := r.Capacity(); s.Foot() > c/2 {
		return
	}
	r.Safety.Disturb(now)
	p.counters.Rotations++
	r.Release(s)
}

// mayDisturb reports that r has had its pause since the last conversation that
// was taken in or pushed out at the cost of computing again.
func (a *admission) mayDisturb(p *Placer, r *ledger.Replica, tokens int, now time.Time) bool {
	return now.Sub(r.Safety.DisturbedAt()) >= pause(p, r.Rate.Took(float64(tokens)))
}

// pause is the least time between two disturbances that cost so much.
func pause(p *Placer, cost time.Duration) time.Duration {
	return time.Duration(float64(cost) / p.cfg.Admission.RotateShare)
}

// surpriseShare of the expected cached tokens not found is a surprise miss. It is
// shown to people and steers nothing: far enough from 1 that whole blocks and an
// estimate that is a third off do not count.
const surpriseShare = 0.6
