package ladder

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// Workload is the shape of the conversations. Lengths are in tokens.
type Workload struct {
	Name string
	// Sessions run at the same time (closed loop): when one ends, the next
	// begins. 0 with Rate set: sessions begin at random times (open loop).
	Sessions int
	Rate     float64 // sessions per second

	Turns     int
	Shared    int // system prompt and tools, the same in all conversations
	First     int // first message, +- 10 %
	Next      int // each further message, +- 25 %
	OutputMin int // answers are uniform between these
	OutputMax int
	Gap       time.Duration // mean of the exponential pause between turns

	// Giants is the share of sessions whose first message is GiantFirst long.
	Giants     float64
	GiantFirst int

	// Subagents are started at the given turns (counted from 0), that many at
	// once; the parent goes on when all have ended. Each has SubTurns turns, a
	// system prompt of its own kind and a first message of SubFirst.
	SubagentsAt                   []int
	Subagents                     int
	SubTurns, SubShared, SubFirst int
}

// Reference is the load of the reference measurement.
func Reference(sessions int) Workload {
	return Workload{
		Name: "reference", Sessions: sessions,
		Turns: 6, Shared: 3500, First: 7300, Next: 400, OutputMin: 64, OutputMax: 256,
	}
}

// Roots that conversations share.
const (
	mainRoot = 1
	subRoot  = 2
)

// script is everything that one conversation will say: it is drawn before the
// conversation starts, so that all policies see the same conversations.
type script struct {
	root   uint64
	system []core.Token
	turns  []scriptTurn
	noise  float64 // factor of the router's token estimate
	kids   []*script
	seed   uint64
}

type scriptTurn struct {
	message int // new tokens
	answer  int
	gap     time.Duration // after the turn
	spawn   bool
}

// estimateNoise is the spread of characters per token between conversations.
const estimateNoise = 0.10

// draw makes the n-th conversation of a run.
func (w Workload) draw(seed uint64, n int) *script {
	rng := rand.New(rand.NewPCG(seed, uint64(n)+1))
	s := &script{
		root: mainRoot, system: text(mainRoot, 0, w.Shared), seed: rng.Uint64(),
		noise: 1 + estimateNoise*(2*rng.Float64()-1),
	}
	for i := range w.Turns {
		t := w.turn(rng)
		if i == 0 {
			t.message = around(rng, w.First, 0.10)
			if rng.Float64() < w.Giants {
				t.message = around(rng, w.GiantFirst, 0.10)
			}
		}
		for _, at := range w.SubagentsAt {
			t.spawn = t.spawn || at == i
		}
		s.turns = append(s.turns, t)
	}
	for range len(w.SubagentsAt) * w.Subagents {
		s.kids = append(s.kids, w.drawSub(rng))
	}
	return s
}

func (w Workload) drawSub(rng *rand.Rand) *script {
	s := &script{
		root: subRoot, system: text(subRoot, 0, w.SubShared), seed: rng.Uint64(),
		noise: 1 + estimateNoise*(2*rng.Float64()-1),
	}
	for i := range w.SubTurns {
		t := w.turn(rng)
		if i == 0 {
			t.message = around(rng, w.SubFirst, 0.10)
		}
		s.turns = append(s.turns, t)
	}
	return s
}

// turn draws a turn that is not the first.
func (w Workload) turn(rng *rand.Rand) scriptTurn {
	return scriptTurn{
		message: around(rng, w.Next, 0.25),
		answer:  w.OutputMin + rng.IntN(w.OutputMax-w.OutputMin+1),
		gap:     exponential(rng, w.Gap),
	}
}

func around(rng *rand.Rand, mean int, spread float64) int {
	return max(1, int(float64(mean)*(1+spread*(2*rng.Float64()-1))))
}

func exponential(rng *rand.Rand, mean time.Duration) time.Duration {
	return time.Duration(-math.Log(1-rng.Float64()) * float64(mean))
}

// text is n tokens that nobody else's text with another seed contains.
func text(seed uint64, from, n int) []core.Token {
	out := make([]core.Token, n)
	for i := range out {
		out[i] = core.Token(seed<<24 ^ uint64(from+i))
	}
	return out
}
