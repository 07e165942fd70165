package ladder

import (
	"fmt"
	"math"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// Rung is one load on one fleet, played by several policies.
type Rung struct {
	Group, Name string
	Run         Run
	Policies    []string
}

// Group texts, in the order of the report.
const (
	groupReference = "Reference load, closed loop"
	groupSmall     = "Reference load, 36,000 KV tokens a replica"
	groupHost      = "Reference load with a host-memory tier of 16 GiB a replica"
	groupLong      = "Longer conversations, 24 sessions"
	groupGaps      = "Pauses between turns (exponential)"
	groupOpen      = "Open loop: conversations begin at random times"
	groupOther     = "Giants, a slow GPU, sub-agents, a death"
	groupKnob      = "The knob of admission: who waits"
	groupEndless   = "A cache that loses nothing: what no policy can exceed"
)

// smallKV is the KV cache of the second reference fleet: with it the cached
// share at 16 sessions comes closer to the measured one.
const smallKV = 36_000

// ladderSessions are the steps of the reference measurement and two more.
func ladderSessions() []int { return []int{4, 8, 12, 16, 24, 32, 48} }

// LongTurns is the reference conversation in 30 steps a fifth as long.
func LongTurns(sessions int) Workload {
	w := Reference(sessions)
	w.Name = "30 short turns"
	w.Turns, w.Next, w.OutputMin, w.OutputMax = 30, w.Next/5, w.OutputMin/5, w.OutputMax/5
	return w
}

// LongSessions is the reference conversation going on for 30 full turns.
func LongSessions(sessions int) Workload {
	w := Reference(sessions)
	w.Name, w.Turns = "30 full turns", 30
	return w
}

// Gapped is the reference load with pauses.
func Gapped(sessions int, gap time.Duration) Workload {
	w := Reference(sessions)
	w.Name, w.Gap = fmt.Sprintf("gap %v", gap), gap
	return w
}

// OpenLoop begins conversations at random, so many a second on average.
func OpenLoop(rate float64) Workload {
	w := Reference(0)
	w.Name, w.Rate = fmt.Sprintf("%.2f sessions/s", rate), rate
	return w
}

// Giants makes 15 % of the conversations begin with 26,000 tokens.
func Giants(sessions int) Workload {
	w := Reference(sessions)
	w.Name, w.Giants, w.GiantFirst = "15 % giants", 0.15, 26_000
	return w
}

// Subagents starts two children after the second and the fourth turn.
func Subagents(sessions int) Workload {
	w := Reference(sessions)
	w.Name = "sub-agents"
	w.SubagentsAt, w.Subagents = []int{1, 3}, 2
	w.SubTurns, w.SubShared, w.SubFirst = 3, 2000, 2000
	return w
}

// Times sets how long each cell runs. Full is for figures, Short for tests.
type Times struct{ Warmup, Length time.Duration }

// Full is long enough for the p95 of the slowest cells to settle; Short shows
// the order of the policies.
func Full() Times  { return Times{2 * time.Minute, 20 * time.Minute} }
func Short() Times { return Times{2 * time.Minute, 6 * time.Minute} }

func ourPolicies() []string {
	return []string{placement.PolicyAdmission, placement.PolicyAffinity, placement.PolicyBalance}
}

// RoutedRungs are those that PlayRouted plays too: our policies under the
// reference load. Rivals are rules, not routers, so they run in Play alone.
func RoutedRungs(t Times, seed uint64) ([]Rung, error) {
	fleet, err := ReferenceFleet()
	if err != nil {
		return nil, err
	}
	b := builder{times: t, seed: seed}
	for _, n := range ladderSessions() {
		b.add(groupReference, Reference(n), fleet, ourPolicies())
	}
	return b.rungs, nil
}

// Rungs returns the whole ladder.
func Rungs(t Times, seed uint64) ([]Rung, error) {
	fleet, err := ReferenceFleet()
	if err != nil {
		return nil, err
	}
	host, err := fleet.WithHost(16)
	if err != nil {
		return nil, err
	}
	small := fleet.WithKV(smallKV)
	ours := ourPolicies()
	few := append(ourPolicies(), "round-robin", "dp-0.27", "stick-table", "bounded-hash", "dynamo", "lmetric")
	b := builder{times: t, seed: seed}
	for _, n := range ladderSessions() {
		b.add(groupReference, Reference(n), fleet, Policies())
		b.add(groupSmall, Reference(n), small, Policies())
		b.add(groupHost, Reference(n), host, ours)
	}
	b.add(groupLong, LongTurns(24), fleet, few)
	b.add(groupLong, LongSessions(24), fleet, few)
	for _, gap := range []time.Duration{2 * time.Second, 5 * time.Second, 15 * time.Second} {
		for _, n := range []int{8, 16, 24, 32} {
			b.add(groupGaps, Gapped(n, gap), fleet, few)
		}
	}
	for _, rate := range []float64{0.14, 0.17, 0.20, 0.22} {
		b.add(groupOpen, OpenLoop(rate), fleet, few)
	}
	b.add(groupOther, Giants(8), fleet, few)
	b.add(groupOther, Giants(16), fleet, few)
	b.add(groupOther, named(Reference(24), "one GPU 12 % slower"), fleet.WithSlow(0.12), few)
	b.add(groupOther, Subagents(8), fleet, few)
	b.add(groupOther, Subagents(12), fleet, few)
	death := fleet.WithDeath(t.Warmup+t.Length/3, time.Minute)
	b.add(groupOther, named(Reference(12), "a replica dies"), death, few)
	b.add(groupOther, named(Reference(24), "a replica dies"), death, few)
	b.knob(fleet)
	b.bounds(fleet)
	return b.rungs, nil
}

func named(w Workload, name string) Workload {
	w.Name = name
	return w
}

type builder struct {
	times Times
	seed  uint64
	rungs []Rung
}

func (b *builder) add(group string, w Workload, f Fleet, policies []string) {
	name := w.Name
	if w.Sessions > 0 {
		name = fmt.Sprintf("%s, %d sessions", w.Name, w.Sessions)
	}
	b.addNamed(group, name, w, f, policies)
}

func (b *builder) addNamed(group, name string, w Workload, f Fleet, policies []string) {
	b.rungs = append(b.rungs, Rung{
		Group: group, Name: name, Policies: policies,
		Run: Run{Work: w, Fleet: f, Seed: b.seed, Warmup: b.times.Warmup, Length: b.times.Length},
	})
}

// endlessKV is more than any load here touches; holdRung has as many sessions as
// the caches of the reference fleet hold.
const (
	endlessKV = 4_000_000
	holdRung  = "as many sessions as the caches hold"
)

// bounds are runs in which nothing is ever lost from a cache.
func (b *builder) bounds(f Fleet) {
	endless, one := f.WithKV(endlessKV), []string{placement.PolicyAffinity}
	for _, n := range ladderSessions() {
		b.add(groupEndless, Reference(n), endless, one)
	}
	b.addNamed(groupEndless, holdRung, Reference(f.holds(Reference(0))), endless, one)
}

// holds is how many conversations of w the fleet's caches hold at once, rounded
// up: each in the middle of its life, beside the prefix that all share.
func (f Fleet) holds(w Workload) int {
	answer := (w.OutputMin + w.OutputMax) / 2
	each := w.First + (w.Turns-1)*(w.Next+answer)/2 + answer/2
	n := 0.0
	for _, e := range f.Engines {
		n += float64(e.Capacity()-w.Shared) / float64(each)
	}
	return int(math.Ceil(n))
}

// knob plays admission with other waits until somebody gives way.
func (b *builder) knob(f Fleet) {
	all := append(knobNames(), placement.PolicyAdmission, placement.PolicyAffinity)
	for _, n := range []int{16, 24, 32} {
		b.add(groupKnob, Reference(n), f, all)
	}
	b.add(groupKnob, named(Reference(16), "reference, 36,000 KV tokens a replica"), f.WithKV(smallKV), all)
	b.add(groupKnob, LongSessions(24), f, all)
}
