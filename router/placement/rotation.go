package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// AdmissionConfig tunes the admission policy. Zero fields take their defaults.
type AdmissionConfig struct {
	// Overcommit hands out so much more than each KV cache holds, as a share of
	// it, between the limits below; less with a negative one. Where conversations
	// nearly fit, some of it shortens the longest waits and lengthens the others.
	// Default 0: on the ladder, 0.05 lowers the p95 of 16 sessions by 15 % and
	// costs 24 sessions 2 % of their turns and 16 sessions on 36,000 tokens a
	// replica 4 %; 0.1 costs those 7 and 8 %.
	Overcommit float64
	// RotateAfter is the wait of the first in the queue after which a resident
	// conversation gives up its place at the end of a turn. Below the natural
	// wait (queue position / conversations that fit x their length) it costs
	// throughput and shortens the longest waits. Default 60 s: against 120 s on
	// the ladder nothing changes up to 1.5 times as many conversations as fit, at
	// three times as many the p95 falls by 29 % and the turns by 11 %, and for
	// those of 30 full turns by about 13 % and 7 %.
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

// The limits of AdmissionConfig.Overcommit. Half a cache too much is as good as no
// admission; half of it kept free leaves room for what else shares a cache.
const (
	LeastOvercommit = -0.5
	MostOvercommit  = 0.5
)

func (c AdmissionConfig) withDefaults() AdmissionConfig {
	c.Overcommit = min(max(c.Overcommit, LeastOvercommit), MostOvercommit)
	c.RotateAfter = orDefault(c.RotateAfter, 60*time.Second)
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

// rotate releases s, whose turn has just ended on r, for one who has waited too
// long. The pauses between rotations of a replica bound their cost to RotateShare
// of its time; a place that takes more than one resident is made in one go.
func (a *admission) rotate(p *Placer, r *ledger.Replica, s *ledger.Session, now time.Time) {
	// What holds more than half a cache cannot make way often enough to help.
	if s.Busy() || s.Foot() > r.Capacity()/2 {
		return
	}
	t := a.overdue(p, r, s, now)
	if t == nil || (!t.clearing && !r.Safety.Quiet(now)) {
		return
	}
	t.claim, t.clearing = r, true
	r.Safety.Disturb(now, pause(p, again(r, s)))
	p.counters.Rotations++
	r.Release(s)
}

// overdue is the first in the queue that has waited too long and whom the place
// of s on r helps: it would fit there, or it is waiting for r as a whole to be
// cleared. Room on several replicas that is too small on each helps nobody.
func (a *admission) overdue(p *Placer, r *ledger.Replica, s *ledger.Session, now time.Time) *turn {
	after := p.cfg.Admission.RotateAfter
	if 2*s.HostedOn(r) > s.Foot() {
		after = a.rotateHosted(p)
	}
	claims := 0
	for _, at := range p.queue.InOrder() {
		t := at.Turn
		if t.claim == nil {
			continue // not among the first
		}
		if claims++; claims > len(p.replicas) {
			return nil
		}
		if lane := a.lane(p, t, now); lane != nil && lane != r {
			continue
		}
		if now.Sub(t.place.Since) <= after {
			continue
		}
		need := a.foot(p, t.session, max(t.prompt, t.session.Tokens()))
		switch lacks := missing(r, t, need); {
		case lacks <= 0:
			return nil // it goes there as soon as the queue is looked at
		case t.claim == r, lacks <= float64(s.Foot()):
			return t
		}
	}
	return nil
}

// mayDisturb reports that r has had its pauses since conversations were last
// taken in or pushed out at the cost of computing again.
func (a *admission) mayDisturb(r *ledger.Replica, now time.Time) bool { return r.Safety.Quiet(now) }

// pause is how long a disturbance that costs so much keeps others away.
func pause(p *Placer, cost time.Duration) time.Duration {
	return time.Duration(float64(cost) / p.cfg.Admission.RotateShare)
}

// surpriseShare of the expected cached tokens not found is a surprise miss. It is
// shown to people and steers nothing: far enough from 1 that whole blocks and an
// estimate that is a third off do not count.
const surpriseShare = 0.6
