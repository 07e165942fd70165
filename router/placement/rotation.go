package placement

import "time"

// AdmissionConfig tunes the admission policy. Zero fields take their defaults.
type AdmissionConfig struct {
	// RotateAfter is the wait of the first in the queue after which a resident
	// conversation gives up its place at the end of a turn. It must exceed the
	// natural wait (queue position / conversations that fit x their length),
	// or rotation costs more than waiting. Default 120 s.
	RotateAfter time.Duration
	// RotateShare bounds the share of an engine's time that computing rotated
	// conversations again may take, 0 to 1. Default 0.2.
	RotateShare float64
	// ForceAfter places the first in the queue although nothing is free.
	// Default 200 s; it must be below Config.MaxWait to be of use.
	ForceAfter time.Duration
}

func (c AdmissionConfig) withDefaults() AdmissionConfig {
	c.RotateAfter = orDefault(c.RotateAfter, 120*time.Second)
	c.RotateShare = min(orDefault(c.RotateShare, 0.2), 1)
	c.ForceAfter = orDefault(c.ForceAfter, 200*time.Second)
	return c
}

// again is how long r needs to compute s from the end of its shared prefix.
func (r *replica) again(s *session) time.Duration {
	return time.Duration(float64(s.foot()) / r.rate.tokensPerSecond() * float64(time.Second))
}

// rotate releases s, whose turn has just ended on r, if the first in the queue
// has waited too long. The pause between two rotations of a replica bounds
// their cost to RotateShare of its time.
func (a *admission) rotate(p *Placer, r *replica, s *session, now time.Time) {
	head := a.head(p)
	if head == nil || now.Sub(head.queued) <= p.cfg.Admission.RotateAfter || s.busy() {
		return
	}
	pause := time.Duration(float64(r.again(s)) / p.cfg.Admission.RotateShare)
	if now.Sub(r.safety.rotatedAt) < pause {
		return
	}
	// What holds more than half a cache cannot make way often enough to help.
	if c := r.capacity(); s.foot() > c/2 {
		return
	}
	r.safety.rotatedAt = now
	p.counters.Rotations++
	r.res.remove(s)
}

// safetyControl corrects our belief about a cache by what its engine reports.
// A resident that finds little of what should be there is a page fault: the
// cache is smaller than we think, or shared with something we do not see. Then
// less of it is handed out (multiplicative decrease), and slowly more again
// while nothing goes wrong and somebody waits (additive increase).
type safetyControl struct {
	reduction float64 // 1 - share, so that the zero value hands out everything
	turns     int     // of residents, measured, in this window
	misses    int
	windowEnd time.Time
	rotatedAt time.Time
}

const (
	safetyWindow   = 5 * time.Second
	safetyTolerate = 0.10 // share of misses that is nobody's fault
	safetyDecrease = 0.9
	safetyIncrease = 0.03
	safetyFloor    = 0.3
	safetyCeiling  = 1.0
	// surpriseShare of the expected cached tokens not found is a miss.
	surpriseShare = 0.6
)

func (c *safetyControl) share() float64 { return 1 - c.reduction }

// observe counts one measured turn of a resident.
func (c *safetyControl) observe(missed bool) {
	c.turns++
	if missed {
		c.misses++
	}
}

// close ends a window and adjusts the share.
func (c *safetyControl) close(waiting bool, now time.Time) {
	if now.Before(c.windowEnd) {
		return
	}
	share := c.share()
	switch {
	case c.turns > 0 && float64(c.misses) > safetyTolerate*float64(c.turns):
		share = max(safetyFloor, safetyDecrease*share)
	case waiting:
		share = min(safetyCeiling, share+safetyIncrease)
	}
	c.reduction = 1 - share
	c.turns, c.misses, c.windowEnd = 0, 0, now.Add(safetyWindow)
}
