package placement

import (
	"math"
	"slices"
	"time"
)

// finishClass groups turns by how soon their conversation comes back: after
// tool calls at the pace of tools, after a stop at the pace of people.
type finishClass uint8

const (
	finishOther finishClass = iota
	finishTools
	finishStop
	finishClasses
)

func classOf(finish string) finishClass {
	switch finish {
	case "tool_calls", "tool_use":
		return finishTools
	case "stop", "end_turn":
		return finishStop
	default:
		return finishOther
	}
}

// gapHorizon is the idle time after which a conversation counts as not coming
// back. It may of course come back; it is then treated like a new one.
const gapHorizon = 60 * time.Second

// gapSamples is how many gaps of a class are remembered: enough for a
// distribution, few enough to follow a change of the load within minutes.
const gapSamples = 300

// gaps is the distribution of idle times between the turns of a conversation,
// learned from the latest ones.
type gaps struct {
	ring   []float64 // seconds, in order of learning; +Inf: did not come back
	next   int
	sorted []float64
}

// priorGaps starts the distribution: of the gaps of one agent 86 % are under
// 1 s and 95 % under 10 s (vllm-project/router issue 285). A few samples only,
// so that a load's own gaps soon decide.
func priorGaps() []float64 {
	return []float64{0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.8, 0.8, 0.9, 0.9, 1, 1, 3, 8, 30}
}

func newGaps() gaps {
	return gaps{ring: priorGaps(), sorted: priorGaps()}
}

func (g *gaps) learn(gap time.Duration, returned bool) {
	v := gap.Seconds()
	if !returned {
		v = math.Inf(1)
	}
	if len(g.ring) < gapSamples {
		g.ring = append(g.ring, v)
	} else {
		old := g.ring[g.next]
		g.ring[g.next] = v
		g.next = (g.next + 1) % gapSamples
		i, _ := slices.BinarySearch(g.sorted, old)
		g.sorted = slices.Delete(g.sorted, i, i+1)
	}
	i, _ := slices.BinarySearch(g.sorted, v)
	g.sorted = slices.Insert(g.sorted, i, v)
}

// returns is the probability that a conversation idle for t comes back within
// the next more: P(gap <= t+more | gap >= t). Beyond all experience it is 0.
func (g *gaps) returns(t, more time.Duration) float64 {
	gone := g.shorter(t)
	left := len(g.sorted) - gone
	if left == 0 {
		return 0
	}
	// One nanosecond makes "up to and including" of "shorter than".
	return float64(g.shorter(t+more+1)-gone) / float64(left)
}

// everReturns is the probability that a conversation idle for t comes back
// before the horizon.
func (g *gaps) everReturns(t time.Duration) float64 {
	return g.returns(t, max(gapHorizon-t, 0))
}

// shorter counts samples below t. A gap of exactly t does not count: at the
// moment of its end nobody's gap is over yet.
func (g *gaps) shorter(t time.Duration) int {
	n, _ := slices.BinarySearch(g.sorted, t.Seconds())
	return n
}
