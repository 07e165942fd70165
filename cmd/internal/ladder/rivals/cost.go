package rivals

import (
	"math/rand/v2"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// dynamo is its KV router's cost in blocks of 16: uncached prefill queued and
// own, plus blocks of active turns. Without KV events the index is predicted
// and an entry lives for 120 s.
type dynamo struct{}

func (dynamo) pick(f *fleet, t *placement.Turn, now time.Time) *replica {
	const block, ttl = 16, 120 * time.Second
	return least(f.open, func(r *replica) int {
		overlap := 0
		if r.roots[t.Root] {
			overlap = f.info.Shared[t.Root]
		}
		if s := r.sent[t.Key]; now.Sub(s.at) < ttl {
			overlap = max(overlap, s.tokens)
		}
		overlap = min(overlap, t.PromptTokens)
		prefill := max(r.prefill+t.PromptTokens-overlap, 0)
		return prefill/block + (r.decode+t.PromptTokens)/block
	})
}

// llmD adds weighted scores in 0 to 1: 2 x queue, 2 x free KV, 3 x prefix (at
// most 256 blocks of 16 are looked at); ties are drawn.
type llmD struct{ rng *rand.Rand }

func newLLMD(seed uint64) rule { return llmD{rand.New(rand.NewPCG(seed, 23))} }

func (l llmD) pick(f *fleet, t *placement.Turn, _ time.Time) *replica {
	const seen = 256 * 16
	low, high := f.open[0].stats.Waiting, f.open[0].stats.Waiting
	for _, r := range f.open {
		low, high = min(low, r.stats.Waiting), max(high, r.stats.Waiting)
	}
	var best []*replica
	top := -1.0
	for _, r := range f.open {
		queue := 1.0
		if high > low {
			queue = float64(high-r.stats.Waiting) / float64(high-low)
		}
		prefix := float64(min(f.matched(t, r), seen)) / float64(max(t.PromptTokens, 1))
		score := 2*queue + 2*(1-r.stats.KVUsed) + 3*prefix
		switch {
		case score > top:
			top, best = score, []*replica{r}
		case score == top:
			best = append(best, r)
		}
	}
	return best[l.rng.IntN(len(best))]
}

// lmetric multiplies the work that a turn would wait for with the load.
type lmetric struct{}

func (lmetric) pick(f *fleet, t *placement.Turn, _ time.Time) *replica {
	best := f.open[0]
	value := func(r *replica) (int, int) {
		uncached := r.prefill + t.PromptTokens - f.matched(t, r)
		return uncached * (r.held + 1), r.held
	}
	bv, bh := value(best)
	for _, r := range f.open[1:] {
		if v, h := value(r); v < bv || (v == bv && h < bh) {
			best, bv, bh = r, v, h
		}
	}
	return best
}
