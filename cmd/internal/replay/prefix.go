package replay

import (
	"slices"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/router/placement"
)

// continues are the reasons of turns whose history was known already.
var continues = []placement.Reason{
	placement.ReasonSticky, placement.ReasonSpill, placement.ReasonFailover, placement.ReasonRehome, placement.ReasonInherit, placement.ReasonPinned,
}

// beganBefore says that a conversation's first line is not its first turn, or
// that it is a fork of another one.
func beganBefore(l accesslog.Line) bool {
	return slices.Contains(continues, placement.Reason(l.Reason))
}

// shared is how many tokens the prompts of a group begin with in common.
type shared map[string]int

// sharedOf takes it from the first turns of new conversations: what they found
// cached was put there by others. The median of those that found anything: the
// first ones on a replica found nothing, and a few may be copies of each other.
func sharedOf(lines []accesslog.Line) shared {
	found := map[string][]int{}
	seen := map[string]bool{}
	for _, l := range lines {
		name := nameOf(l)
		if name != "" && seen[name] || beganBefore(l) {
			continue
		}
		seen[name] = true
		if cached := value(l.CachedTokens, 0); cached > 0 {
			found[groupOf(l)] = append(found[groupOf(l)], cached)
		}
	}
	out := shared{}
	for group, all := range found {
		slices.Sort(all)
		out[group] = all[len(all)/2]
	}
	return out
}

// of is the common beginning of a conversation whose first line is l: what that
// found itself, and otherwise what others of its group found.
func (s shared) of(l accesslog.Line) int {
	n := s[groupOf(l)]
	if cached := value(l.CachedTokens, 0); cached > 0 && !beganBefore(l) {
		n = cached
	}
	return min(n, promptOf(l)-1)
}
