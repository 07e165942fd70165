package ladder

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Cell is one result with its place in the ladder.
type Cell struct {
	Group string `json:"group"`
	Rung  string `json:"rung"`
	Result
}

// Report is everything that a climb found.
type Report struct {
	// Simulated is always true: no figure here was measured on hardware.
	Simulated bool    `json:"simulated"`
	Profile   string  `json:"profile"`
	Warmup    float64 `json:"warmup_seconds"`
	Length    float64 `json:"length_seconds"`
	Seed      uint64  `json:"seed"`
	Bars      []Bar   `json:"bars,omitempty"`
	Cells     []Cell  `json:"cells"`
}

// Climb plays all rungs and tells of each cell as it is done.
func Climb(rungs []Rung, done func(Cell)) (Report, error) {
	rep := Report{Simulated: true, Profile: ReferenceProfile}
	for _, rung := range rungs {
		rep.Warmup, rep.Length, rep.Seed = rung.Run.Warmup.Seconds(), rung.Run.Length.Seconds(), rung.Run.Seed
		for _, name := range rung.Policies {
			r, err := PlayNamed(rung.Run, name)
			if err != nil {
				return rep, fmt.Errorf("%s, %s: %w", rung.Name, name, err)
			}
			c := Cell{Group: rung.Group, Rung: rung.Name, Result: r}
			rep.Cells = append(rep.Cells, c)
			if done != nil {
				done(c)
			}
		}
	}
	return rep, nil
}

// WriteJSON writes the report for machines.
func (r Report) WriteJSON(w io.Writer) error {
	r.Bars = r.Judge()
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// ReadJSON reads what WriteJSON has written.
func ReadJSON(r io.Reader) (Report, error) {
	var rep Report
	err := json.NewDecoder(r).Decode(&rep)
	return rep, err
}

// Join adds the cells of a report of the same length and seed, of those rungs
// that r has as well.
func (r *Report) Join(other Report) error {
	if other.Profile != r.Profile || other.Length != r.Length || other.Warmup != r.Warmup || other.Seed != r.Seed {
		return fmt.Errorf("it was played on %s for %.0f s after %.0f s with seed %d, this on %s for %.0f s after %.0f s with seed %d",
			other.Profile, other.Length, other.Warmup, other.Seed, r.Profile, r.Length, r.Warmup, r.Seed)
	}
	for _, c := range other.Cells {
		if slices.ContainsFunc(r.Cells, func(own Cell) bool { return own.Group == c.Group && own.Rung == c.Rung }) {
			r.Cells = append(r.Cells, c)
		}
	}
	return nil
}

// column is one column of the Markdown tables.
type column struct {
	title string
	cell  func(Result) string
}

func columns() []column {
	return []column{
		{"policy", func(r Result) string { return r.Policy }},
		{"level", func(r Result) string { return r.Level }},
		{"p50 s", func(r Result) string { return seconds(r.TTFB.P50) }},
		{"p95 s", func(r Result) string { return seconds(r.TTFB.P95) }},
		{"first turns p50 · p95", func(r Result) string { return seconds(r.FirstTurns.P50) + " · " + seconds(r.FirstTurns.P95) }},
		{"later turns p50 · p95", func(r Result) string { return seconds(r.LaterTurns.P50) + " · " + seconds(r.LaterTurns.P95) }},
		{"longest wait s", func(r Result) string { return seconds(r.MaxWait) }},
		{"turns/min", func(r Result) string { return fmt.Sprintf("%.1f", r.TurnsPerMinute) }},
		{"tokens/min", func(r Result) string { return fmt.Sprintf("%.0f", r.OutputPerMinute) }},
		{"sessions/h", func(r Result) string { return fmt.Sprintf("%.0f", r.SessionsPerHour) }},
		{"session p50 · p95 s", func(r Result) string { return fmt.Sprintf("%.0f · %.0f", r.Session.P50, r.Session.P95) }},
		{"hits %", func(r Result) string { return fmt.Sprintf("%.0f of %.0f", 100*r.HitRate, 100*r.IdealHitRate) }},
		{"wasted prompt tokens/min", func(r Result) string { return fmt.Sprintf("%.0f", r.WastedPerMinute) }},
		{"TPOT p95 ms", func(r Result) string { return fmt.Sprintf("%.0f", 1000*r.TPOT.P95) }},
		{"fairness clients · sessions", func(r Result) string { return fmt.Sprintf("%.2f · %.2f", r.JainClients, r.JainSlowdown) }},
		{"moves", func(r Result) string { return fmt.Sprint(r.Moves) }},
		{"preempted", func(r Result) string { return fmt.Sprint(r.Preemptions) }},
		{"refused · broken · open", func(r Result) string { return fmt.Sprintf("%d · %d · %d", r.Rejected, r.Broken, r.Unfinished) }},
		{"Little", func(r Result) string { return fmt.Sprintf("%.2f", r.Little) }},
	}
}

func seconds(s float64) string {
	if s < 10 {
		return fmt.Sprintf("%.2f", s)
	}
	return fmt.Sprintf("%.1f", s)
}

// WriteMarkdown writes the report for people.
func (r Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# Placement policies, SIMULATED\n\n")
	fmt.Fprintf(&b, "No figure here was measured on hardware. Engines: vLLM V1's scheduler step by step, profile `%s`, four replicas, 32 sequences each. "+
		"%.0f s of warm-up and %.0f s of measurement in virtual time, seed %d. Times to first token include all waiting; `level` is what stood between clients and schedulers: the `placer` alone, or the `router` with HTTP on both its sides; `longest wait` is in the router's queue; "+
		"`hits` is against an endless cache; `wasted` is what such a cache would have saved; `Little` is (TTFT + decode + pause) × rate / sessions and must be 1 in a closed loop.\n",
		r.Profile, r.Warmup, r.Length, r.Seed)
	r.writeBars(&b)
	cols := columns()
	group, rung := "", ""
	for _, c := range r.Cells {
		if c.Group != group {
			group, rung = c.Group, ""
			fmt.Fprintf(&b, "\n## %s\n", group)
		}
		if c.Rung != rung {
			rung = c.Rung
			fmt.Fprintf(&b, "\n### %s\n\n", rung)
			b.WriteString("|")
			for _, col := range cols {
				b.WriteString(" " + col.title + " |")
			}
			b.WriteString("\n|" + strings.Repeat("---|", len(cols)) + "\n")
		}
		b.WriteString("|")
		for _, col := range cols {
			b.WriteString(" " + col.cell(c.Result) + " |")
		}
		b.WriteString("\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// ByGroup orders cells so that each group, and in it each rung, is together, as
// the report needs it.
func (r *Report) ByGroup() {
	groups, rungs := map[string]int{}, map[string]int{}
	place := func(order map[string]int, name string) {
		if _, seen := order[name]; !seen {
			order[name] = len(order)
		}
	}
	for _, c := range r.Cells {
		place(groups, c.Group)
		place(rungs, c.Group+c.Rung)
	}
	slices.SortStableFunc(r.Cells, func(a, b Cell) int {
		return cmp.Or(groups[a.Group]-groups[b.Group], rungs[a.Group+a.Rung]-rungs[b.Group+b.Rung])
	})
}
