package placement

import (
	"math"
	"time"
)

// Smoothing of the moving averages: a fifth of each new value. Slow enough to
// ride over one odd turn, fast enough to follow a new agent within a minute.
const smoothing = 0.2

func smooth(old, sample float64) float64 {
	if old == 0 {
		return sample
	}
	return old + smoothing*(sample-old)
}

// The token ratio corrects the caller's estimate. It is bounded so that one
// absurd report cannot spoil decisions.
const minRatio, maxRatio = 0.2, 5

// promptOf is the best estimate of a turn's prompt tokens: never more than the
// largest KV cache holds, for an engine refuses what cannot fit.
func (p *Placer) promptOf(t *Turn, s *session) int {
	ratio := p.ratio
	if s != nil && s.ratio > 0 {
		ratio = s.ratio
	}
	if ratio == 0 {
		ratio = 1
	}
	n := int(float64(max(t.PromptTokens, 0)) * ratio)
	if n == 0 && s != nil {
		n = s.tokens
	}
	if most := p.largestCache(); most > 0 {
		n = min(n, most)
	}
	return n
}

// largestCache is the size of the largest KV cache in tokens; 0 while one of
// them is not known.
func (p *Placer) largestCache() int {
	most := 0
	for _, r := range p.replicas {
		c := r.capacity()
		if c == 0 {
			return 0
		}
		most = max(most, c)
	}
	return most
}

// learnTokens takes the engine's token counts of a finished turn.
func (p *Placer) learnTokens(t *turn, o Outcome) {
	if o.PromptTokens > 0 && t.PromptTokens > 0 {
		sample := float64(o.PromptTokens) / float64(t.PromptTokens)
		sample = min(max(sample, minRatio), maxRatio)
		p.ratio = smooth(p.ratio, sample)
		if t.session != nil {
			t.session.ratio = sample
		}
	}
	if o.OutputTokens > 0 {
		p.output = smooth(p.output, float64(o.OutputTokens))
	}
}

// growthOf is how many tokens a turn is expected to add to s.
func (p *Placer) growthOf(s *session) float64 {
	if s != nil && s.growth > 0 {
		return s.growth
	}
	return p.growth
}

// paceMemory is the time over which the pace of finished turns is averaged.
const paceMemory = time.Minute

// pace counts turns a second, as a decaying sum over paceMemory.
type pace struct {
	perSecond float64
	at        time.Time
}

func (c *pace) count(now time.Time) {
	if !c.at.IsZero() {
		c.perSecond *= math.Exp(-now.Sub(c.at).Seconds() / paceMemory.Seconds())
	}
	c.perSecond += 1 / paceMemory.Seconds()
	c.at = now
}

// rateEstimate is a replica's prefill speed, learned from turns that it had to
// itself and for which it really had to work.
type rateEstimate struct {
	perSecond float64
	samples   int
}

// priorRate is assumed until the first measurement, in tokens per second: about
// what a 4-billion-parameter model does on a small GPU. It only weighs waiting
// against recomputing, for the seconds until a turn has been measured.
const priorRate = 4000

// minRateSample is the least work, in tokens, from which a speed is learned:
// below it fixed costs dominate.
const minRateSample = 512

func (e rateEstimate) tokensPerSecond() float64 {
	if e.samples == 0 {
		return priorRate
	}
	return e.perSecond
}

func (e *rateEstimate) learn(tokens int, took time.Duration) {
	if tokens < minRateSample || took <= 0 {
		return
	}
	e.perSecond = smooth(e.perSecond, float64(tokens)/took.Seconds())
	e.samples++
}
