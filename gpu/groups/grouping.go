package groups

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/lm-warden/warden/gpu"
)

// choose forms dp groups of req.TP devices out of usable.
//
// It first keeps the worst connection of any group as good as possible, since
// tensor parallelism runs at the speed of its slowest link and the slowest
// replica sets the tail of all; then the sum over all groups; then low
// indices, so that the same box always gives the same plan.
//
// # Trade-offs
//
// The search is exact for the boxes one meets (8 GPUs: at most 105 ways to
// pair them) and bounded by searchSteps and exactLimit beyond; it starts with
// the greedy answer and only improves it. Groups of unlike GPUs are refused, because the
// smaller card then decides for all; when the user named the GPUs it is their
// decision, and only avoided where possible.
func choose(inv gpu.Inventory, req Request, usable []gpu.Device, dp int) ([]gpu.Group, error) {
	if req.TP == 1 {
		groups := make([]gpu.Group, dp)
		for i := range groups {
			groups[i] = gpu.Group{usable[i]}
		}
		return groups, nil
	}
	all := sets(inv, usable, req.TP, req.GPUs != nil)
	most := disjoint(all)
	if req.DP == 0 {
		dp = min(dp, most) // unlike GPUs make fewer groups than the number says
	}
	if dp == 0 || dp > most {
		return nil, unequal(req, usable)
	}
	s := newSearch(all, dp)
	s.run(nil, cost{}, 0, 0)
	groups := make([]gpu.Group, 0, len(s.best))
	for _, i := range s.best {
		groups = append(groups, s.sets[i].group)
	}
	slices.SortFunc(groups, func(a, b gpu.Group) int { return cmp.Compare(a[0].Index, b[0].Index) })
	return groups, nil
}

func unequal(req Request, usable []gpu.Device) *Error {
	kinds := map[string]int{}
	for _, d := range usable {
		kinds[d.ShortName()]++
	}
	e := &Error{Kind: Unequal}
	e.What = fmt.Sprintf("`%s` needs groups of %d equal GPUs, this machine has", numbers(req.DP, req.TP), req.TP)
	fits := 0
	for i, name := range slices.Sorted(maps.Keys(kinds)) {
		if i > 0 {
			e.What += ","
		}
		e.What += fmt.Sprintf(" %d %s", kinds[name], name)
		fits += kinds[name] / req.TP
	}
	e.Fix = "`--tp 1`"
	if fits > 0 {
		e.Fix = "`" + numbers(fits, req.TP) + "` or " + e.Fix
	}
	e.Fix += ", or name the GPUs with `--gpus` to mix them"
	return e
}

// Pair costs. NVLink beats every PCIe path, more links beat fewer; the PCIe
// levels follow in NVML's order; a second NUMA node is the tie-break where the
// level is unknown.
const (
	costNVLink  = 40 // less the number of links (at most 36)
	costLevel   = 41 // plus NVML's level, 0 to 50
	costUnknown = 100
	costNUMA    = 1
	costUnlike  = 1000 // above all others together: also the mark of a pair that does not match
)

func pairCost(a, b gpu.Device, link gpu.Link) int {
	c := costUnknown
	switch {
	case link.NVLinks > 0:
		c = max(costNVLink-link.NVLinks, 1)
	case link.Level != gpu.LevelUnknown:
		c = costLevel + int(link.Level)
	}
	if a.NUMANode != b.NUMANode {
		c += costNUMA
	}
	if !alike(a, b) {
		c += costUnlike
	}
	return c
}

// pairCosts is pairCost of every two devices by position.
func pairCosts(inv gpu.Inventory, devices []gpu.Device) [][]int {
	costs := make([][]int, len(devices))
	for i, a := range devices {
		costs[i] = make([]int, len(devices))
		for j, b := range devices {
			costs[i][j] = pairCost(a, b, inv.Between(a.Index, b.Index))
		}
	}
	return costs
}

// alike: one model and about one size. ECC takes 1/16 of some cards' memory,
// so cards that differ only in that setting still match.
func alike(a, b gpu.Device) bool {
	small, large := min(a.Memory, b.Memory), max(a.Memory, b.Memory)
	return a.Name == b.Name && large-small <= large/10
}

// cost orders solutions: the worst pair of any group, then the sum of pairs.
type cost struct{ worst, sum int }

func (c cost) plus(d cost) cost { return cost{max(c.worst, d.worst), c.sum + d.sum} }

func (c cost) less(d cost) bool {
	return c.worst < d.worst || c.worst == d.worst && c.sum < d.sum
}

// set is one possible group.
type set struct {
	group gpu.Group
	mask  uint64 // of positions in usable
	cost  cost
}

// exactLimit is the most GPUs for which all groups are weighed (16 GPUs in
// groups of 8 make 12,870). Larger boxes get neighbours on the bus together.
const exactLimit = 16

// sets lists the possible groups of tp devices, the best first.
func sets(inv gpu.Inventory, usable []gpu.Device, tp int, mixed bool) []set {
	if len(usable) > exactLimit {
		usable = slices.Clone(usable[:min(len(usable), 64)]) // the bits of a mask
		slices.SortStableFunc(usable, func(a, b gpu.Device) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Memory, b.Memory))
		})
	}
	costs := pairCosts(inv, usable)
	var all []set
	add := func(positions []int) {
		s := set{}
		for i, p := range positions {
			s.group = append(s.group, usable[p])
			s.mask |= 1 << p
			for _, q := range positions[:i] {
				c := costs[q][p]
				if c >= costUnlike && !mixed {
					return
				}
				s.cost = s.cost.plus(cost{c, c})
			}
		}
		all = append(all, s)
	}
	if len(usable) <= exactLimit {
		combinations(len(usable), tp, add)
	} else {
		neighbours(len(usable), tp, add)
	}
	slices.SortStableFunc(all, func(a, b set) int {
		return cmp.Or(cmp.Compare(a.cost.worst, b.cost.worst), cmp.Compare(a.cost.sum, b.cost.sum))
	})
	return all
}

// combinations calls use with every choice of k out of n positions.
func combinations(n, k int, use func([]int)) {
	var extend func(chosen []int, from int)
	extend = func(chosen []int, from int) {
		if len(chosen) == k {
			use(chosen)
			return
		}
		for i := from; i <= n-(k-len(chosen)); i++ {
			extend(append(chosen, i), i+1)
		}
	}
	extend(make([]int, 0, k), 0)
}

// neighbours calls use with positions 0 to k-1, k to 2k-1, and so on.
func neighbours(n, k int, use func([]int)) {
	for from := 0; from+k <= n; from += k {
		run := make([]int, k)
		for i := range run {
			run[i] = from + i
		}
		use(run)
	}
}

// disjoint counts the groups that do not share a device, taken greedily. With
// every choice of equal devices in the list that is also the most there can
// be, because a chosen group never makes another of its kind impossible.
func disjoint(all []set) int {
	var used uint64
	count := 0
	for _, s := range all {
		if s.mask&used == 0 {
			used |= s.mask
			count++
		}
	}
	return count
}

// searchSteps bounds the search at some milliseconds; 8 GPUs need a hundredth.
const searchSteps = 200_000

// search finds dp disjoint sets of the least cost, by depth first with the
// best sets first: the first answer is the greedy one.
type search struct {
	dp       int
	sets     []set
	floor    []int // the least sum of sets[i:], for the bound
	best     []int // positions in sets
	bestCost cost
	steps    int
}

func newSearch(all []set, dp int) *search {
	s := &search{dp: dp, sets: all, floor: make([]int, len(all))}
	for i := len(all) - 1; i >= 0; i-- {
		s.floor[i] = all[i].cost.sum
		if i+1 < len(all) {
			s.floor[i] = min(s.floor[i], s.floor[i+1])
		}
	}
	return s
}

func (s *search) run(chosen []int, so cost, used uint64, from int) {
	if len(chosen) == s.dp {
		if s.best == nil || so.less(s.bestCost) {
			s.best, s.bestCost = slices.Clone(chosen), so
		}
		return
	}
	for i := from; i < len(s.sets); i++ {
		candidate := s.sets[i]
		missing := s.dp - len(chosen)
		bound := cost{max(so.worst, candidate.cost.worst), so.sum + missing*s.floor[i]}
		if s.best != nil && !bound.less(s.bestCost) {
			return // no set from here on can beat the best answer
		}
		if candidate.mask&used != 0 {
			continue
		}
		if s.steps++; s.steps > searchSteps {
			return
		}
		s.run(append(chosen, i), so.plus(candidate.cost), used|candidate.mask, i+1)
	}
}
