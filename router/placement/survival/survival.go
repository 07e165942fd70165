// Package survival answers how likely it is that somebody who is away comes
// back in time: the distribution of gaps, learned from the latest ones. It is
// pure; time comes in as a parameter.
package survival

import (
	"math"
	"slices"
	"time"
)

// Horizon is the idle time after which somebody counts as not coming back. Who
// does come back later is treated like a newcomer.
const Horizon = 60 * time.Second

// gapSamples is how many gaps of a class are remembered: enough for a
// distribution, few enough to follow a change of the load within minutes.
const gapSamples = 300

// Gaps is the distribution of idle times, learned from the latest ones. Those
// who are away right now count as well, as far as they have come: that somebody
// has been away for 10 s speaks against a return between 0 and 10 s long before
// it is known whether it ever happens (as in a Kaplan-Meier estimate).
type Gaps[T comparable] struct {
	ring   []float64 // seconds, in order of learning; +Inf: did not come back
	next   int
	sorted []float64
	epoch  time.Time      // from which away counts: its first entry
	away   []departure[T] // in order of their end
}

// departure is somebody who is away.
type departure[T comparable] struct {
	who T
	at  time.Duration // after the epoch
}

// priorGaps starts the distribution: of the gaps of one agent 86 % are under
// 1 s and 95 % under 10 s (vllm-project/router issue 285). A few samples only,
// so that a load's own gaps soon decide.
func priorGaps() []float64 {
	return []float64{
		0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.8, 0.8, 0.9, 0.9, 1, 1, 3, 8, math.Inf(1),
	}
}

// New returns a distribution that knows only the prior.
func New[T comparable]() *Gaps[T] {
	return &Gaps[T]{ring: priorGaps(), sorted: priorGaps()}
}

// Leave notes that who is away since at, which must not be before the at of an
// earlier call.
func (g *Gaps[T]) Leave(who T, at time.Time) {
	if g.epoch.IsZero() {
		g.epoch = at
	}
	g.away = append(g.away, departure[T]{who, at.Sub(g.epoch)})
}

// Back learns the gap of who has been away since left. It does nothing when who
// is not away.
func (g *Gaps[T]) Back(who T, left, now time.Time) {
	since := left.Sub(g.epoch)
	for i := g.awayBefore(since); i < len(g.away) && g.away[i].at == since; i++ {
		if g.away[i].who == who {
			g.away = slices.Delete(g.away, i, i+1)
			g.learn(now.Sub(left).Seconds())
			return
		}
	}
}

// Lose takes one that has been away beyond the horizon; ok is false when there
// is none.
func (g *Gaps[T]) Lose(now time.Time) (who T, ok bool) {
	if len(g.away) == 0 || now.Sub(g.epoch)-g.away[0].at < Horizon {
		return who, false
	}
	who = g.away[0].who
	g.away[0] = departure[T]{}
	g.away = g.away[1:]
	g.learn(math.Inf(1))
	return who, true
}

func (g *Gaps[T]) learn(seconds float64) {
	if len(g.ring) < gapSamples {
		g.ring = append(g.ring, seconds)
	} else {
		old := g.ring[g.next]
		g.ring[g.next] = seconds
		g.next = (g.next + 1) % gapSamples
		i, _ := slices.BinarySearch(g.sorted, old)
		g.sorted = slices.Delete(g.sorted, i, i+1)
	}
	i, _ := slices.BinarySearch(g.sorted, seconds)
	g.sorted = slices.Insert(g.sorted, i, seconds)
}

// Returns is the probability that somebody who left at left comes back within
// the next more: P(gap <= t+more | gap >= t) with t = now - left. Beyond all
// experience it is 0.
func (g *Gaps[T]) Returns(left, now time.Time, more time.Duration) float64 {
	t := now.Sub(left)
	gone := g.shorter(t)
	// One nanosecond makes "up to and including" of "shorter than".
	within := g.shorter(t+more+1) - gone
	if within == 0 {
		return 0
	}
	longer := g.awayBefore(left.Sub(g.epoch) - more)
	return float64(within) / float64(len(g.sorted)-gone+longer)
}

// EverReturns is the probability of coming back before the horizon.
func (g *Gaps[T]) EverReturns(left, now time.Time) float64 {
	return g.Returns(left, now, max(Horizon-now.Sub(left), 0))
}

// shorter counts samples below t. A gap of exactly t does not count: at the
// moment of its end nobody's gap is over yet.
func (g *Gaps[T]) shorter(t time.Duration) int {
	seconds := t.Seconds()
	// The hot spot of a decision: a search whose steps are additions, not jumps
	// that a processor guesses wrong every other time.
	at, n := 0, len(g.sorted)
	for n > 1 {
		half := n / 2
		if g.sorted[at+half-1] < seconds {
			at += half
		}
		n -= half
	}
	if n == 1 && g.sorted[at] < seconds {
		at++
	}
	return at
}

// awayBefore counts those away since before at.
func (g *Gaps[T]) awayBefore(at time.Duration) int {
	low, high := 0, len(g.away)
	for low < high {
		if mid := (low + high) / 2; g.away[mid].at < at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
