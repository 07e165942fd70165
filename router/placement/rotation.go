package placement

import "time"

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
func (r *replica) again(s *session) time.Duration {
	hosted := min(s.hostedOn(r), s.foot())
	work := float64(s.foot()-hosted) + hostCost*float64(hosted)
	return time.Duration(work / r.rate.tokensPerSecond() * float64(time.Second))
}

// rotate releases s, whose turn has just ended on r, if the first in the queue
// has waited too long. The pause between two rotations of a replica bounds
// their cost to RotateShare of its time.
func (a *admission) rotate(p *Placer, r *replica, s *session, now time.Time) {
	head := a.head(p, r, now)
	after := p.cfg.Admission.RotateAfter
	if 2*s.hostedOn(r) > s.foot() {
		after = a.rotateHosted(p)
	}
	if head == nil || now.Sub(head.queued) <= after || s.busy() {
		return
	}
	if now.Sub(r.safety.rotatedAt) < pause(p, r.again(s)) {
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

// mayDisturb reports that r has had its pause since the last conversation that
// was taken in or pushed out at the cost of computing again.
func (a *admission) mayDisturb(p *Placer, r *replica, tokens int, now time.Time) bool {
	cost := time.Duration(float64(tokens) / r.rate.tokensPerSecond() * float64(time.Second))
	return now.Sub(r.safety.rotatedAt) >= pause(p, cost)
}

// pause is the least time between two disturbances that cost so much.
func pause(p *Placer, cost time.Duration) time.Duration {
	return time.Duration(float64(cost) / p.cfg.Admission.RotateShare)
}

// safetyControl corrects our belief about a cache by what its engine reports.
// A resident that finds part of its history gone is a page fault: too much was
// handed out, because the cache is smaller than we think, shared with something
// we do not see, or because conversations grew more than was kept free. Then
// less is handed out (multiplicative decrease), and slowly more again while
// little is lost and somebody waits (additive increase).
type safetyControl struct {
	excess    float64 // share - 1, so that the zero value hands out everything
	turns     int     // of residents, measured, in this window
	history   int     // tokens of history in them
	found     int     // tokens of it that were in the cache
	windowEnd time.Time
	rotatedAt time.Time
}

const (
	safetyWindow   = 5 * time.Second
	safetyTurns    = 8    // measured turns that a verdict needs at least
	safetyTolerate = 0.10 // share of history lost that costs less than a free slot
	safetyDecrease = 0.9
	safetyIncrease = 0.03
	safetyFloor    = 0.3
	// safetyCeiling hands out the whole cache and no more. Found on the ladder:
	// up to 1.1 while little is lost, the p95 of 16 sessions falls by 40 %, but
	// 36,000 tokens a replica then serve 6 % fewer turns and 30-turn sessions 5 %.
	safetyCeiling = 1.0
	// surpriseShare of the expected cached tokens not found is a miss.
	surpriseShare = 0.6
)

func (c *safetyControl) share() float64 { return 1 + c.excess }

// observe counts one measured turn of a resident.
func (c *safetyControl) observe(history, found int) {
	c.turns++
	c.history += history
	c.found += found
}

// close ends a window and adjusts the share.
func (c *safetyControl) close(waiting bool, now time.Time) {
	if now.Before(c.windowEnd) || c.turns < safetyTurns {
		return
	}
	share := c.share()
	switch lost := 1 - float64(c.found)/float64(c.history); {
	case lost > safetyTolerate:
		share = max(safetyFloor, safetyDecrease*share)
	case waiting:
		share = min(safetyCeiling, share+safetyIncrease)
	}
	c.excess = share - 1
	c.turns, c.history, c.found, c.windowEnd = 0, 0, 0, now.Add(safetyWindow)
}
