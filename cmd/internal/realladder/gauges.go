package realladder

import (
	"slices"
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder"
	"github.com/lm-warden/warden/router/placement"
)

// gauges stands between simulated engines and a policy and shows it of an engine
// what vLLM's metrics would: vLLM writes its gauges at the end of a step (V1
// scheduler, make_stats in update_from_output), and its CPU build plans the next
// step only then. While a prompt is computed, here for up to half a second, the
// gauges do not know of it yet. The simulated scheduler's figures do.
type gauges struct {
	ladder.Policy
	shared int           // tokens of the prefix that all conversations have
	every  time.Duration // between two scrapes of the policy; 0: it sees each
	next   time.Time     // the first scrape after the last one
	engine map[placement.ReplicaID]*unanswered
	turns  map[uint64]*unanswered
	tokens map[uint64]int // of the prompts of turns that have arrived
}

// unanswered are an engine's turns without a first token, in the order in which
// they were sent.
type unanswered struct {
	capacity int // of its KV cache, in tokens
	turns    []uint64
}

// scrapes is the time between two looks at the engines of a router that does not
// look all the time: SMG's --load-monitor-interval.
func scrapes(policy string) time.Duration {
	if policy == "cache_aware" {
		return 10 * time.Second
	}
	return 0
}

func newGauges(p ladder.Policy, shared int, every time.Duration) *gauges {
	return &gauges{
		Policy: p, shared: shared, every: every,
		engine: map[placement.ReplicaID]*unanswered{}, turns: map[uint64]*unanswered{}, tokens: map[uint64]int{},
	}
}

// Step implements ladder.Policy.
func (g *gauges) Step(ev placement.Event, now time.Time) []placement.Action {
	switch e := ev.(type) {
	case placement.Arrive:
		g.tokens[e.Turn.ID] = e.Turn.PromptTokens
	case placement.FirstByte:
		g.answered(e.TurnID)
	case placement.Finish:
		g.answered(e.TurnID)
	case placement.Replicas:
		for _, r := range e.Replicas {
			g.engine[r.ID] = &unanswered{capacity: r.KVCapacityTokens}
		}
	case placement.Stats:
		if !g.scraped(e.Replica, now) {
			return nil
		}
		e.Engine = g.shown(e)
		ev = e
	}
	actions := g.Policy.Step(ev, now)
	for _, a := range actions {
		if d, ok := a.(placement.Dispatch); ok {
			u := g.engine[d.Replica]
			u.turns = append(u.turns, d.TurnID)
			g.turns[d.TurnID] = u
		}
	}
	return actions
}

// scraped says whether the policy looks at the engines now: at all of them at the
// same time.
func (g *gauges) scraped(id placement.ReplicaID, now time.Time) bool {
	if now.Before(g.next) {
		return false
	}
	last := true
	for other := range g.engine {
		last = last && other <= id
	}
	if last {
		g.next = now.Add(g.every)
	}
	return true
}

func (g *gauges) answered(turn uint64) {
	if u := g.turns[turn]; u != nil {
		u.turns = slices.DeleteFunc(u.turns, func(t uint64) bool { return t == turn })
		delete(g.turns, turn)
	}
	delete(g.tokens, turn)
}

// shown takes the turns of the step under way out of an engine's figures. Those
// that wait were sent last: the engine serves in the order of arrival.
func (g *gauges) shown(s placement.Stats) placement.EngineView {
	v, u := s.Engine, g.engine[s.Replica]
	if u == nil || u.capacity == 0 {
		return v
	}
	for _, turn := range u.turns[:max(0, len(u.turns)-v.Waiting)] {
		v.Running = max(0, v.Running-1)
		v.KVUsed = max(0, v.KVUsed-float64(max(0, g.tokens[turn]-g.shared))/float64(u.capacity))
	}
	return v
}
