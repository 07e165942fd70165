package placement

import (
	"github.com/lm-warden/warden/router/placement/estimate"
	"github.com/lm-warden/warden/router/placement/ledger"
)

// The token ratio corrects the caller's estimate. It is bounded so that one
// absurd report cannot spoil decisions.
const minRatio, maxRatio = 0.2, 5

// promptOf is the best estimate of a turn's prompt tokens: never more than the
// largest KV cache holds, for an engine refuses what cannot fit.
func (p *Placer) promptOf(t *Turn, s *ledger.Session) int {
	ratio := p.ratio
	if s != nil && s.Ratio > 0 {
		ratio = s.Ratio
	}
	if ratio == 0 {
		ratio = 1
	}
	n := int(float64(max(t.PromptTokens, 0)) * ratio)
	if n == 0 && s != nil {
		n = s.Tokens()
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
		c := r.Capacity()
		if c == 0 {
			return 0
		}
		most = max(most, c)
	}
	return most
}

// cachedOn is how many tokens of a turn's prompt we believe r need not compute.
func (p *Placer) cachedOn(t *turn, r *ledger.Replica) int {
	n := t.root.CachedOn(r)
	if !t.Fresh {
		n += t.session.CachedOn(r)
	}
	// An engine always computes the last token of a prompt.
	return min(n, max(t.prompt-1, 0))
}

// growthOf is how many tokens a turn is expected to add to s.
func (p *Placer) growthOf(s *ledger.Session) float64 {
	if s != nil && s.Growth > 0 {
		return s.Growth
	}
	return p.growth
}

// learnTokens takes the engine's token counts of a finished turn.
func (p *Placer) learnTokens(t *turn, o Outcome) {
	if o.PromptTokens > 0 && t.PromptTokens > 0 {
		sample := float64(o.PromptTokens) / float64(t.PromptTokens)
		sample = min(max(sample, minRatio), maxRatio)
		p.ratio = estimate.Smooth(p.ratio, sample)
		if t.session != nil {
			t.session.Ratio = sample
		}
	}
}

// resize takes the conversation's new length.
func (p *Placer) resize(t *turn, o Outcome) {
	s := t.session
	tokens := t.prompt
	if o.PromptTokens > 0 {
		tokens = o.PromptTokens
	}
	tokens += o.OutputTokens
	if s.Turns() > 1 && tokens > s.LastTokens && s.LastTokens > 0 {
		added := float64(tokens - s.LastTokens)
		s.Growth = estimate.Smooth(s.Growth, added)
		p.growth = estimate.Smooth(p.growth, added)
	}
	s.SetTokens(tokens)
	s.LastTokens = tokens
}

// learnRoot takes the cached tokens of a first turn as a report of how much of
// its prompt is shared. Forks say nothing: they share more than the root.
func (p *Placer) learnRoot(t *turn, o Outcome) {
	if t.session == nil || t.session.Turns() != 1 || t.root == nil || o.CachedTokens <= 0 ||
		t.Inherit != "" || t.Fresh || len(t.attempts) > 0 {
		return
	}
	t.root.Learn(o.CachedTokens, t.replica)
}

// learnRate takes the prefill speed from a turn that had its replica to itself.
func (p *Placer) learnRate(t *turn, o Outcome) {
	if !t.alone || t.firstByte.IsZero() || o.CachedTokens < 0 || o.PromptTokens == 0 {
		return
	}
	took, work := t.firstByte.Sub(t.dispatched), o.PromptTokens-o.CachedTokens
	t.replica.Rate.Learn(work, took)
	p.rate.Learn(work, took)
}
