package agreement

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// RanOn names the one difference that is known. vLLM looks for stop strings
// where it turns tokens into text, outside the engine, and then aborts the
// request. Until the abort arrives the engine goes on: its further tokens may
// take one more KV block, and that block was the oldest prefix of somebody else.
// The simulated engine ends exactly at the stop string. How far vLLM runs on
// depends on timing, so no rule could follow it.
const RanOn = "vLLM ran on past a stop string"

// Explanation is what must have happened for the simulated engine to say what
// vLLM said.
type Explanation struct {
	// RanOn holds the turns that ran on, and by how many tokens.
	RanOn map[int]int
	// Outcomes are those of a simulated engine with these turns run on. Where
	// they still differ from what vLLM said, there is no explanation.
	Outcomes []Outcome
}

// Explain searches for the turns that ran on. fresh makes a simulated engine
// with an empty cache and blocks of that many tokens; when everything could be
// explained the last one made has played the explanation.
func Explain(ctx context.Context, fresh func() Engine, blockSize int, script []Turn, said []Outcome) (Explanation, error) {
	s := search{fresh: fresh, blockSize: blockSize, script: script, said: said}
	best, err := s.play(ctx, nil)
	for err == nil && best.first < len(script) {
		from := best
		if best, err = s.further(ctx, from); best.first <= from.first {
			break
		}
	}
	return Explanation{RanOn: best.ranOn, Outcomes: best.outcomes}, err
}

type search struct {
	fresh     func() Engine
	blockSize int
	script    []Turn
	said      []Outcome
}

// attempt is a guess at which turns ran on, and what comes of it.
type attempt struct {
	ranOn    map[int]int
	outcomes []Outcome
	first    int // turn that still differs; len(script): none
}

// lookBack is how many turns back from a difference its cause is looked for: by
// then a block has found its way through the whole cache.
const lookBack = 100

// further is the attempt with one change to from after which the first
// difference comes latest; from itself when none helps.
func (s *search) further(ctx context.Context, from attempt) (attempt, error) {
	best := from
	for i := from.first - 1; i >= max(0, from.first-lookBack); i-- {
		for _, extra := range s.extras(i) {
			if best.first == len(s.script) {
				return best, nil
			}
			guess := maps.Clone(from.ranOn)
			if guess == nil {
				guess = map[int]int{}
			}
			guess[i] = extra
			a, err := s.play(ctx, guess)
			if err != nil {
				return best, err
			}
			if a.first > best.first {
				best = a
			}
		}
	}
	return best, nil
}

// extras are the lengths of running on, in tokens, that a cache could tell
// apart: those with which one more block is begun or filled.
func (s *search) extras(i int) []int {
	t := s.script[i]
	if t.Stopped == 0 {
		return nil
	}
	var lengths []int
	most := int(gjson.GetBytes(t.Body, "max_tokens").Int()) - t.Stopped
	for extra := 1; extra <= most; extra++ {
		computed := s.said[i].Prompt + t.Stopped + extra - 1 // the last token is not computed
		if rest := computed % s.blockSize; rest == 0 || rest == 1 {
			lengths = append(lengths, extra)
		}
	}
	return lengths
}

// play asks a fresh engine, with some turns run on. These are compared by their
// prompts only: what they wrote was cut off before anybody saw it.
func (s *search) play(ctx context.Context, ranOn map[int]int) (attempt, error) {
	script := slices.Clone(s.script)
	for i, extra := range ranOn {
		var err error
		if script[i], err = runOn(script[i], extra); err != nil {
			return attempt{}, err
		}
	}
	outcomes, err := Play(ctx, s.fresh(), script)
	if err != nil {
		return attempt{}, err
	}
	for i := range ranOn {
		outcomes[i].Output, outcomes[i].Finish, outcomes[i].Text = s.said[i].Output, s.said[i].Finish, s.said[i].Text
	}
	first := slices.IndexFunc(s.script, func(t Turn) bool { return outcomes[t.N] != s.said[t.N] })
	if first < 0 {
		first = len(script)
	}
	return attempt{ranOn, outcomes, first}, nil
}

// runOn is a stopped turn that goes on for some tokens more.
func runOn(t Turn, extra int) (Turn, error) {
	body, err := sjson.DeleteBytes(t.Body, "stop")
	if err == nil {
		body, err = sjson.SetBytes(body, "max_tokens", t.Stopped+extra)
	}
	if err != nil {
		return t, fmt.Errorf("turn %d cannot be changed: %w", t.N, err)
	}
	t.Body = body
	return t, nil
}

// Tokens is how many tokens ran on in all.
func (e Explanation) Tokens() int {
	n := 0
	for _, extra := range e.RanOn {
		n += extra
	}
	return n
}

// Turns are the turns that ran on, in order.
func (e Explanation) Turns() []int { return slices.Sorted(maps.Keys(e.RanOn)) }
