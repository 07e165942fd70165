// Package estimate holds what is learned of speeds and sizes from one outcome
// after the other: moving averages, the pace of turns, the rate of prefill.
package estimate

import (
	"math"
	"time"
)

// smoothing is the weight of each new value in a moving average: a fifth. Slow
// enough to ride over one odd turn, fast enough to follow a new agent within a
// minute.
const smoothing = 0.2

// Smooth is the moving average old after one more sample; 0 is no average yet.
func Smooth(old, sample float64) float64 {
	if old == 0 {
		return sample
	}
	return old + smoothing*(sample-old)
}

// paceMemory is the time over which a Pace is averaged.
const paceMemory = time.Minute

// Pace counts turns a second, as a decaying sum over paceMemory.
type Pace struct {
	perSecond float64
	at        time.Time
}

// PerSecond is the pace when it was last counted, 0 before.
func (c Pace) PerSecond() float64 { return c.perSecond }

// Count notes that one turn has ended.
func (c *Pace) Count(now time.Time) {
	if !c.at.IsZero() {
		c.perSecond *= math.Exp(-now.Sub(c.at).Seconds() / paceMemory.Seconds())
	}
	c.perSecond += 1 / paceMemory.Seconds()
	c.at = now
}

// Rate is a replica's prefill speed, learned from turns that it had to itself
// and for which it really had to work.
type Rate struct {
	perSecond float64 // 0 before the first measurement
}

// priorRate is assumed until the first measurement, in tokens per second: about
// what a 4-billion-parameter model does on a small GPU. It only weighs waiting
// against recomputing, for the seconds until a turn has been measured.
const priorRate = 4000

// minRateSample is the least work, in tokens, from which a speed is learned:
// below it fixed costs dominate.
const minRateSample = 512

// TokensPerSecond is the rate to reckon with.
func (e Rate) TokensPerSecond() float64 {
	if e.perSecond == 0 {
		return priorRate
	}
	return e.perSecond
}

// Measured is the rate as measured, 0 before.
func (e Rate) Measured() float64 { return e.perSecond }

// Took is the time that computing so many tokens takes.
func (e Rate) Took(tokens float64) time.Duration {
	return time.Duration(tokens / e.TokensPerSecond() * float64(time.Second))
}

// Learn takes one measurement.
func (e *Rate) Learn(tokens int, took time.Duration) {
	if tokens < minRateSample || took <= 0 {
		return
	}
	e.perSecond = Smooth(e.perSecond, float64(tokens)/took.Seconds())
}
