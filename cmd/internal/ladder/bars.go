package ladder

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/lm-warden/warden/router/placement"
)

// Bar is one thing that admission is held to.
type Bar struct {
	Load    string  `json:"load"`
	Demand  string  `json:"demand"`
	Found   string  `json:"found"`
	Verdict Verdict `json:"verdict"`
	// Bound says why the demand cannot be met by any policy, where that is so.
	Bound string `json:"bound,omitempty"`
}

// Verdict is how a bar ended.
type Verdict string

// The verdicts.
const (
	Met        Verdict = "met"
	Missed     Verdict = "missed"
	Impossible Verdict = "out of reach of any policy"
)

// measured is a column of the reference table: MEASURED on the machine whose
// model the engines here are, and no figure of this simulation.
type measured struct{ p50, p95, tokens float64 }

// referenceTable holds vLLM's own balancer and session affinity, by sessions.
func referenceTable() map[int][2]measured {
	return map[int][2]measured{
		24: {{5.06, 58.82, 9_048}, {13.14, 38.34, 11_178}},
		32: {{12.32, 82.84, 14_760}, {27.66, 38.92, 16_638}},
	}
}

// Slack of "equal or better", and of "never below affinity".
const slack = 0.03

// judge collects bars from the cells of a report.
type judge struct {
	cells []Cell
	bars  []Bar
}

// Judge holds admission to everything that is asked of it. Bars whose cells were
// not played are left out.
func (r Report) Judge() []Bar {
	j := judge{cells: r.Cells}
	for _, n := range []int{4, 8, 12} {
		j.fits(n, groupReference)
		j.fits(n, groupHost)
	}
	j.knee()
	for _, n := range []int{24, 32} {
		j.overload(n)
		j.tier(n)
	}
	j.long("30 short turns")
	j.long("30 full turns")
	j.everywhere()
	return j.bars
}

// of is the cell of a policy in a rung, by the placer alone.
func (j *judge) of(group string, rung, policy string) (Result, bool) {
	i := slices.IndexFunc(j.cells, func(c Cell) bool {
		return c.Group == group && c.Rung == rung && c.Policy == policy && c.Level == LevelPlacer
	})
	if i < 0 {
		return Result{}, false
	}
	return j.cells[i].Result, true
}

func referenceRung(sessions int) string { return fmt.Sprintf("reference, %d sessions", sessions) }

// others are all other policies' cells of a rung on the plain engines.
func (j *judge) others(rung string) (all []Result) {
	for _, c := range j.cells {
		if c.Group == groupReference && c.Rung == rung && c.Level == LevelPlacer && c.Policy != placement.PolicyAdmission {
			all = append(all, c.Result)
		}
	}
	return all
}

func (j *judge) add(load, demand, found string, met bool, bound string) {
	b := Bar{Load: load, Demand: demand, Found: found, Verdict: Missed}
	switch {
	case met:
		b.Verdict = Met
	case bound != "":
		b.Verdict, b.Bound = Impossible, bound
	}
	j.bars = append(j.bars, b)
}

// best is the best of each column over some results.
type best struct {
	p50, p95, hits, tokens float64
	fastest                string // whose p50 it is: often one that starves half of the sessions
}

func bestOf(all []Result) best {
	b := best{p50: math.Inf(1), p95: math.Inf(1)}
	for _, r := range all {
		if r.TTFB.P50 < b.p50 {
			b.p50, b.fastest = r.TTFB.P50, fmt.Sprintf("%s, whose p95 is %s s", r.Policy, seconds(r.TTFB.P95))
		}
		b.p95 = min(b.p95, r.TTFB.P95)
		b.hits, b.tokens = max(b.hits, r.HitRate), max(b.tokens, r.OutputPerMinute)
	}
	return b
}

func (b best) String() string {
	return fmt.Sprintf("p50 %s s, p95 %s s, hits %.1f %%, %.0f tokens/min", seconds(b.p50), seconds(b.p95), 100*b.hits, b.tokens)
}

// fits: while everything fits, nobody else may be better in any column.
func (j *judge) fits(n int, group string) {
	ours, ok := j.of(group, referenceRung(n), placement.PolicyAdmission)
	others := j.others(referenceRung(n))
	if !ok || len(others) == 0 {
		return
	}
	rival, own := bestOf(others), bestOf([]Result{ours})
	met := own.p50 <= (1+slack)*rival.p50 && own.p95 <= (1+slack)*rival.p95 &&
		own.hits >= (1-slack)*rival.hits && own.tokens >= (1-slack)*rival.tokens
	j.add(loadName(n, group), fmt.Sprintf("each column within 3 %% of the best of %d other policies: %s", len(others), rival), own.String(), met, "")
}

func loadName(n int, group string) string {
	if group == groupHost {
		return fmt.Sprintf("%d sessions, host tier", n)
	}
	return fmt.Sprintf("%d sessions", n)
}

// knee: 16 sessions, where four conversations a replica nearly fit.
func (j *judge) knee() {
	rung := referenceRung(16)
	ours, ok := j.of(groupReference, rung, placement.PolicyAdmission)
	affinity, ok2 := j.of(groupReference, rung, placement.PolicyAffinity)
	if !ok || !ok2 {
		return
	}
	j.add("16 sessions", "p50 at most 0.5 s", seconds(ours.TTFB.P50)+" s", ours.TTFB.P50 <= 0.5, "")
	j.add("16 sessions", "hits at least 80 %", fmt.Sprintf("%.1f %%", 100*ours.HitRate), ours.HitRate >= 0.8, "")
	j.tokens("16 sessions", rung, 1.15, ours, affinity)
	if tier, ok := j.of(groupHost, rung, placement.PolicyAdmission); ok {
		j.add("16 sessions, host tier", fmt.Sprintf("p95 at most affinity's without the tier, %s s", seconds(affinity.TTFB.P95)),
			seconds(tier.TTFB.P95)+" s", tier.TTFB.P95 <= affinity.TTFB.P95, "")
	}
}

// tokens demands a multiple of affinity's tokens a minute. More than an endless
// cache gives at that load nobody can have.
func (j *judge) tokens(load, rung string, times float64, ours, affinity Result) {
	want, bound := times*affinity.OutputPerMinute, ""
	if endless, ok := j.of(groupEndless, rung, placement.PolicyAffinity); ok && endless.OutputPerMinute < want {
		bound = fmt.Sprintf("a cache that loses nothing gives %.0f, %.2f times affinity's", endless.OutputPerMinute, endless.OutputPerMinute/affinity.OutputPerMinute)
	}
	j.add(load, fmt.Sprintf("tokens/min at least %.2f times affinity's %.0f", times, affinity.OutputPerMinute),
		fmt.Sprintf("%.0f, %.2f times", ours.OutputPerMinute, ours.OutputPerMinute/affinity.OutputPerMinute), ours.OutputPerMinute >= want, bound)
}

// overload: more conversations than the caches hold.
func (j *judge) overload(n int) {
	rung, load := referenceRung(n), loadName(n, groupReference)
	ours, ok := j.of(groupReference, rung, placement.PolicyAdmission)
	affinity, ok2 := j.of(groupReference, rung, placement.PolicyAffinity)
	if !ok || !ok2 {
		return
	}
	j.add(load, "p50 at most 0.5 s", seconds(ours.TTFB.P50)+" s", ours.TTFB.P50 <= 0.5, "")
	j.tokens(load, rung, 1.45, ours, affinity)
	j.add(load, fmt.Sprintf("session time p50 at most 0.7 times affinity's %.0f s", affinity.Session.P50),
		fmt.Sprintf("%.0f s, %.2f times", ours.Session.P50, ours.Session.P50/affinity.Session.P50), ours.Session.P50 <= 0.7*affinity.Session.P50, "")
}

// tier: with host memory the median, the tail and the throughput must all be
// better than what others reach without, here and on the reference machine.
func (j *judge) tier(n int) {
	rung, load := referenceRung(n), loadName(n, groupHost)
	ours, ok := j.of(groupHost, rung, placement.PolicyAdmission)
	others := j.others(rung)
	if !ok || len(others) == 0 {
		return
	}
	own, rival := bestOf([]Result{ours}), bestOf(others)
	j.add(load, fmt.Sprintf("better than %d other policies without the tier: p50 %s s (%s), p95 %s s, %.0f tokens/min",
		len(others), seconds(rival.p50), rival.fastest, seconds(rival.p95), rival.tokens),
		own.String(), own.p50 < rival.p50 && own.p95 < rival.p95 && own.tokens > rival.tokens, "")
	table := referenceTable()[n]
	p50, p95 := min(table[0].p50, table[1].p50), min(table[0].p95, table[1].p95)
	j.add(load, fmt.Sprintf("p50 and p95 better than both columns of the reference table (MEASURED): %s and %s s", seconds(p50), seconds(p95)),
		fmt.Sprintf("%s and %s s", seconds(own.p50), seconds(own.p95)), own.p50 < p50 && own.p95 < p95, "")
	want, bound := max(table[0].tokens, table[1].tokens), ""
	if full, ok := j.of(groupEndless, holdRung, placement.PolicyAffinity); ok && full.OutputPerMinute <= want {
		bound = fmt.Sprintf("requests that run need their KV on the GPU: the caches hold %d such conversations at once, and so many with a cache that loses nothing give %.0f",
			full.Sessions, full.OutputPerMinute)
	}
	j.add(load, fmt.Sprintf("more tokens/min than both columns of the reference table (MEASURED): %.0f", want),
		fmt.Sprintf("%.0f", own.tokens), own.tokens > want, bound)
}

// long: conversations of 30 turns.
func (j *judge) long(name string) {
	rung := name + ", 24 sessions"
	ours, ok := j.of(groupLong, rung, placement.PolicyAdmission)
	affinity, ok2 := j.of(groupLong, rung, placement.PolicyAffinity)
	if !ok || !ok2 {
		return
	}
	column := func(what, format string, got, want float64, met bool, bound string) {
		j.add(rung, fmt.Sprintf("%s better than affinity's "+format, what, want), fmt.Sprintf(format, got), met, bound)
	}
	column("p50", "%.2f s", ours.TTFB.P50, affinity.TTFB.P50, ours.TTFB.P50 < affinity.TTFB.P50, "")
	column("turns/min", "%.1f", ours.TurnsPerMinute, affinity.TurnsPerMinute, ours.TurnsPerMinute > affinity.TurnsPerMinute, "")
	column("p95", "%.1f s", ours.TTFB.P95, affinity.TTFB.P95, ours.TTFB.P95 < affinity.TTFB.P95, "")
}

// everywhere: what must hold in every cell that was played.
func (j *judge) everywhere() {
	worst, where := math.Inf(1), ""
	longest, waited, refused := 0.0, "", 0
	for _, c := range j.cells {
		if c.Policy != placement.PolicyAdmission || c.Level != LevelPlacer {
			continue
		}
		refused += c.Rejected
		if c.MaxWait > longest {
			longest, waited = c.MaxWait, c.Group+": "+c.Rung
		}
		if a, ok := j.of(c.Group, c.Rung, placement.PolicyAffinity); ok && a.TurnsPerMinute > 0 {
			if share := c.TurnsPerMinute / a.TurnsPerMinute; share < worst {
				worst, where = share, c.Group+": "+c.Rung
			}
		}
	}
	if where == "" {
		return
	}
	limit := placement.DefaultMaxWait
	j.add("all", "turns/min never below affinity's by more than 3 %", fmt.Sprintf("at worst %.1f %% (%s)", 100*(worst-1), where), worst >= 1-slack, "")
	j.add("all", fmt.Sprintf("no turn waits longer than %.0f s, none is refused", limit.Seconds()),
		fmt.Sprintf("longest %.0f s (%s), %d refused", longest, waited, refused), longest <= limit.Seconds() && refused == 0, "")
}

// writeBars writes the bars, and what stands in the way of those not met.
func (r Report) writeBars(w io.Writer) {
	bars := r.Judge()
	if len(bars) == 0 {
		return
	}
	count := map[Verdict]int{}
	for _, b := range bars {
		count[b.Verdict]++
	}
	fmt.Fprintf(w, "\n## Bars\n\nWhat `admission` is held to: %d met, %d missed, %d %s.\n\n", count[Met], count[Missed], count[Impossible], Impossible)
	fmt.Fprint(w, "| load | demand | found | verdict |\n|---|---|---|---|\n")
	for _, b := range bars {
		verdict := string(b.Verdict)
		if b.Verdict != Met {
			verdict = "**" + verdict + "**"
		}
		if b.Bound != "" {
			verdict += ": " + b.Bound
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", b.Load, b.Demand, b.Found, verdict)
	}
	r.writeKnob(w)
}
