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
// learned from the latest ones. Conversations that are away right now count as
// well, as far as they have come: that somebody has been away for 10 s speaks
// against a return between 0 and 10 s long before it is known whether it ever
// returns (as in a Kaplan-Meier estimate).
type gaps struct {
	ring   []float64 // seconds, in order of learning; +Inf: did not come back
	next   int
	sorted []float64
	epoch  time.Time   // from which away counts: its first entry
	away   []endedTurn // in order of their end
}

// endedTurn is the end of a turn whose conversation has not come back.
type endedTurn struct {
	session *session
	at      time.Duration // after the epoch
}

// priorGaps starts the distribution: of the gaps of one agent 86 % are under
// 1 s and 95 % under 10 s (vllm-project/router issue 285). A few samples only,
// so that a load's own gaps soon decide.
func priorGaps() []float64 {
	return []float64{
		0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.5, 0.5, 0.6, 0.7, 0.8, 0.8, 0.9, 0.9, 1, 1, 3, 8, math.Inf(1),
	}
}

func newGaps() gaps {
	return gaps{ring: priorGaps(), sorted: priorGaps()}
}

// leave notes the end of a turn.
func (g *gaps) leave(s *session, at time.Time) {
	if g.epoch.IsZero() {
		g.epoch = at
	}
	g.away = append(g.away, endedTurn{s, at.Sub(g.epoch)})
}

// back learns the gap of a conversation that returns.
func (g *gaps) back(s *session, now time.Time) {
	ended := s.endedAt.Sub(g.epoch)
	for i := g.awayBefore(ended); i < len(g.away) && g.away[i].at == ended; i++ {
		if g.away[i].session == s {
			g.away = slices.Delete(g.away, i, i+1)
			g.learn(now.Sub(s.endedAt).Seconds())
			return
		}
	}
}

// lose takes a conversation that has been away beyond the horizon, nil when
// there is none.
func (g *gaps) lose(now time.Time) *session {
	if len(g.away) == 0 || now.Sub(g.epoch)-g.away[0].at < gapHorizon {
		return nil
	}
	s := g.away[0].session
	g.away = g.away[1:]
	g.learn(math.Inf(1))
	return s
}

func (g *gaps) learn(seconds float64) {
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

// returns is the probability that a conversation whose turn ended at end comes
// back within the next more: P(gap <= t+more | gap >= t). Beyond all experience
// it is 0.
func (g *gaps) returns(end, now time.Time, more time.Duration) float64 {
	t := now.Sub(end)
	gone := g.shorter(t)
	// One nanosecond makes "up to and including" of "shorter than".
	within := g.shorter(t+more+1) - gone
	if within == 0 {
		return 0
	}
	longer := g.awayBefore(end.Sub(g.epoch) - more)
	return float64(within) / float64(len(g.sorted)-gone+longer)
}

// everReturns is the probability that it comes back before the horizon.
func (g *gaps) everReturns(end, now time.Time) float64 {
	return g.returns(end, now, max(gapHorizon-now.Sub(end), 0))
}

// shorter counts samples below t. A gap of exactly t does not count: at the
// moment of its end nobody's gap is over yet.
func (g *gaps) shorter(t time.Duration) int {
	seconds := t.Seconds()
	low, high := 0, len(g.sorted)
	for low < high { // the hot spot of a decision: sort.Search costs twice as much
		if mid := (low + high) / 2; g.sorted[mid] < seconds {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// awayBefore counts those away since before at.
func (g *gaps) awayBefore(at time.Duration) int {
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
