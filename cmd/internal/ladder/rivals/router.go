package rivals

import (
	"time"

	"github.com/lm-warden/warden/router/placement"
)

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
