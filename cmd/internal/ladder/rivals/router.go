package rivals

import (
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// cacheAware is vllm-project/router's default: the longest known prefix if it
// is more than 30 % of the prompt, the fewest in flight otherwise or when the
// spread of in-flight turns exceeds 64 and a factor of 1.5.
type cacheAware struct{}

func (cacheAware) pick(f *fleet, t *placement.Turn, _ time.Time) *replica {
	const threshold, abs, rel = 0.3, 64, 1.5
	low, high := f.open[0].held, f.open[0].held
	for _, r := range f.open {
		low, high = min(low, r.held), max(high, r.held)
	}
	if high-low > abs && float64(high) > rel*float64(low) {
		return least(f.open, inFlight)
	}
	best := least(f.open, func(r *replica) int { return -f.matched(t, r) })
	if float64(f.matched(t, best)) > threshold*float64(t.PromptTokens) {
		return best
	}
	return least(f.open, inFlight)
}

// stickyLeastLoaded gives a new conversation to the replica with the fewest
// conversations and never moves it.
type stickyLeastLoaded struct{}

func (*stickyLeastLoaded) pick(f *fleet, t *placement.Turn, _ time.Time) *replica {
	if home := f.home(t); home != nil {
		return home
	}
	return least(f.open, func(r *replica) int { return r.residents })
}

// stickyTable moves a conversation when its home holds at least 8 turns more
// than the least loaded and twice as many, and the body is at most 32 KiB.
type stickyTable struct{}

func (*stickyTable) pick(f *fleet, t *placement.Turn, _ time.Time) *replica {
	const margin, factor, body, bytesPerToken = 8, 2, 32 << 10, 4
	low := least(f.open, func(r *replica) int { return r.held<<20 + r.residents })
	home := f.home(t)
	if home == nil {
		return low
	}
	if home.held-low.held >= margin && home.held >= factor*low.held && t.PromptTokens*bytesPerToken <= body {
		return low
	}
	return home
}
