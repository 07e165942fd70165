package screen

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/explain"
	"github.com/lm-warden/warden/tui/state"
)

// measure is one sparkline: what it draws, on which scale.
type measure struct {
	title  string
	peaks  bool    // a cell shows the largest value in it, not the mean
	scale  float64 // 0 = the largest value of all rows
	figure func(state.Point) float64
	form   func(float64) string
}

var measures = []measure{
	{title: "requests held", peaks: true, figure: func(p state.Point) float64 { return p.Held }, form: cell.Count},
	{title: "waiting", peaks: true, figure: func(p state.Point) float64 { return p.Waiting }, form: cell.Count},
	{title: "KV cache", scale: 1, figure: func(p state.Point) float64 { return p.KV }, form: cell.Percent},
	{title: "prefix hits", scale: 1, figure: func(p state.Point) float64 { return p.Hit }, form: cell.Percent},
	{title: "TTFT p50", peaks: true, figure: func(p state.Point) float64 { return p.TTFT }, form: cell.Seconds},
}

// trendSection: four sparklines of the sum in two lines.
func (s view) trendSection(w int, t cell.Theme) section {
	return section{min: 2, want: 2, draw: func(int) []string {
		n := 20
		switch {
		case w < tableWidth:
			n = 10
		case w >= 100:
			n = 30
		}
		one := func(m measure, label int) string {
			return cell.Left(m.title, label, t.ASCII) + s.trend(m, "", n, 0, 6, t)
		}
		held, waiting, hits, ttft := measures[0], measures[1], measures[3], measures[4]
		return []string{
			" " + one(held, 14) + one(hits, 12),
			" " + one(waiting, 14) + one(ttft, 12),
		}
	}}
}

// trend draws one sparkline and the newest value in valueW cells. scale 0 = the measure's own, or this row's largest.
func (s view) trend(m measure, replica string, n int, scale float64, valueW int, t cell.Theme) string {
	h := s.Shown().History
	data := h.Series(replica, s.DaemonNow(), n, m.peaks, m.figure)
	newest := cell.Gap()
	if len(h) > 0 {
		last := h[len(h)-1]
		p, there := last.All, true
		if replica != "" {
			p, there = last.Replicas[replica]
		}
		if there {
			newest = m.figure(p)
		}
	}
	return cell.Spark(data, cmp.Or(m.scale, scale, state.Largest(data)), t.ASCII) + cell.Left(" "+number(newest, m.form).s, valueW, t.ASCII)
}

// historySection: five sparklines per replica, each column on one scale so that rows compare.
func (s view) historySection(w int, t cell.Theme) section {
	lines := s.tableLines(t)
	return section{min: min(3, len(lines)+1), want: len(lines) + 1, draw: func(h int) []string {
		const label = 12
		shown := measures
		n := cellsFor(w-label, len(shown))
		for n == 0 && len(shown) > 2 {
			shown = shown[:len(shown)-1]
			n = cellsFor(w-label, len(shown))
		}
		head := cell.Left(" LAST 60 s", label, t.ASCII)
		scales := make([]float64, len(shown))
		for i, m := range shown {
			head += cell.Left(m.title, n+8, t.ASCII)
			for _, l := range lines {
				scales[i] = max(scales[i], state.Largest(s.Shown().History.Series(l.ID, s.DaemonNow(), n, m.peaks, m.figure)))
			}
		}
		out := []string{t.Paint(dim, strings.TrimRight(head, " "))}
		for _, l := range scrolled(s, s.scrolls(state.HistoryPanel), lines, h-1) {
			row := cell.Left("   "+l.ID, label, t.ASCII)
			for i, m := range shown {
				row += s.trend(m, l.ID, n, scales[i], 7, t) + " "
			}
			out = append(out, strings.TrimRight(row, " "))
		}
		return out
	}}
}

// scrolls reports whether that panel is the one that the keys scroll.
func (s view) scrolls(p state.Panel) bool { return s.Panel == p && s.Screen == state.MainScreen }

// cellsFor finds how many cells a sparkline gets so that each stands for a whole number of seconds.
func cellsFor(w, sparks int) int {
	for _, n := range []int{60, 30, 20, 15, 12, 10} {
		if (n+8)*sparks <= w {
			return n
		}
	}
	return 0
}

// noticeSection: what just happened, or the worst finding.
func (s view) noticeSection(w int, t cell.Theme) section {
	return section{min: 1, want: 1, draw: func(int) []string {
		if s.Flash.Text != "" {
			r := accent
			if s.Flash.Failed {
				r = bad
			}
			return []string{t.Paint(r, " "+cell.Cut(s.Flash.Text, w-2, t.ASCII))}
		}
		var extra string
		if s.Filter != "" {
			extra = "   filter " + quote(s.Filter)
		}
		if s.Sort != state.ByID {
			extra += "   sorted by " + s.Sort.String()
		}
		found := s.Shown().Findings
		if len(found) == 0 {
			return []string{extra}
		}
		f := found[0]
		words, r := f.Short, plain
		if f.Level > explain.Fine {
			words += " (e explains)"
		}
		switch f.Level {
		case explain.Bad:
			words, r = "! "+words, bad
		case explain.Warn:
			words, r = "! "+words, warn
		case explain.Note:
			words = "- " + words
		}
		return []string{t.Paint(r, " "+cell.Cut(words, w-2-cell.Width(extra), t.ASCII)) + t.Paint(dim, extra)}
	}}
}

// hintSection helps whoever started it and sees only dashes. ok is false once there was a request.
func (s view) hintSection(w int, t cell.Theme) (section, bool) {
	status := s.Shown().Status
	if status.Totals.Requests > 0 || status.Count(control.StateReady) == 0 || len(status.Models) == 0 || status.Listen == "" {
		return section{}, false
	}
	lines := []string{
		" No request yet. Point an agent at it: ANTHROPIC_BASE_URL=" + status.Listen,
		"   or try: curl " + status.Listen + "/v1/chat/completions \\",
		"     -H 'Content-Type: application/json' \\",
		`     -d '{"model":"` + status.Models[0].Alias + `","messages":[{"role":"user","content":"hello"}]}'`,
	}
	for i, l := range lines {
		lines[i] = cell.Cut(l, w, t.ASCII)
	}
	return section{min: len(lines), want: len(lines), draw: func(int) []string { return lines }}, true
}

// placementSection: is the load even, and why are turns where they are.
func (s view) placementSection(w int, t cell.Theme) section {
	return section{min: 2, want: 2, draw: func(int) []string {
		return []string{s.balanceLine(w, t), s.placementLine(w, t)}
	}}
}

func (s view) balanceLine(w int, t cell.Theme) string {
	p := s.Shown()
	current, _ := s.Current()
	var mine []control.Replica
	for _, r := range p.Status.Replicas {
		if r.Model == current.Model {
			mine = append(mine, r)
		}
	}
	spread, ok := explain.SpreadOf(mine)
	if !ok {
		return t.Paint(dim, " BALANCE     fewer than two replicas to compare")
	}
	title, r := " BALANCE     ", dim
	if spread.Uneven() {
		title, r = " IMBALANCE   ", warn
	}
	words := fmt.Sprintf("REQ %d..%d   KV %s..%s", spread.HeldMin, spread.HeldMax,
		strings.TrimSuffix(cell.Percent(spread.KVMin), "%"), cell.Percent(spread.KVMax))
	if spread.TTFTFactor > 0 {
		words += fmt.Sprintf("   TTFT %.1fx", spread.TTFTFactor)
	}
	if !spread.Uneven() {
		words += "   even"
	} else {
		words += "   " + spread.Outlier + " is the outlier"
		for i, f := range p.Findings {
			if f.About(spread.Outlier) && i > 0 { // the first one stands in the notice
				words += ": " + strings.TrimPrefix(f.Short, spread.Outlier+": ")
				break
			}
		}
	}
	return t.Paint(r, title) + cell.Cut(words, w-cell.Width(title), t.ASCII)
}

// reasonOrder is the order in which reasons are told; others follow by name.
var reasonOrder = []string{"new", "sticky", "spill", "failover", "no_key"}

func (s view) placementLine(w int, t cell.Theme) string {
	tot := s.Shown().Status.Totals
	var counts, rates []string
	for _, reason := range reasons(tot.Placements) {
		counts = append(counts, strings.ReplaceAll(reason, "_", " ")+" "+cell.Count(float64(tot.Placements[reason])))
	}
	for _, reason := range reasons(tot.HitRateByReason) {
		rates = append(rates, strings.ReplaceAll(reason, "_", " ")+" "+cell.Percent(tot.HitRateByReason[reason]))
	}
	if len(counts) == 0 {
		counts = []string{"nothing placed yet"}
	}
	words := strings.Join(counts, "   ") + fmt.Sprintf("  |  homes lost to restarts %d", tot.HomesLost)
	if len(rates) > 0 {
		words += "  |  hits: " + strings.Join(rates, "  ")
	}
	return t.Paint(dim, " PLACEMENT   ") + cell.Cut(words, w-13, t.ASCII)
}

func reasons[V any](m map[string]V) []string {
	rank := func(s string) int {
		if i := slices.Index(reasonOrder, s); i >= 0 {
			return i
		}
		return len(reasonOrder)
	}
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}

// eventsSection lists what happened, newest first. Each placed turn is an event; only the full panel tells those.
func (s view) eventsSection(w int, all bool, t cell.Theme) section {
	list := s.eventList(all)
	return section{min: min(3, len(list)), want: len(list), draw: func(h int) []string {
		return s.eventLines(scrolled(s, s.scrolls(state.EventsPanel), list, h), w, t)
	}}
}

func (s view) eventList(all bool) []events.Event {
	var out []events.Event
	for _, e := range slices.Backward(s.Shown().Events) {
		if !all && e.Kind == events.KindPlaced || s.Filter != "" && !state.Matches(s.Filter, e.Replica, e.Model, e.Kind, e.Text) {
			continue
		}
		out = append(out, e)
	}
	return out
}

func (s view) eventLines(list []events.Event, w int, t cell.Theme) []string {
	out := make([]string, 0, len(list))
	for _, e := range list {
		who := orElse(e.Replica, "--")
		head := " " + e.At.In(s.Zone).Format("15:04:05") + " " + cell.Left(who, 3, t.ASCII) + cell.Left(e.Kind, 9, t.ASCII)
		body := cell.Cut(e.Text, w-cell.Width(head), t.ASCII)
		switch e.Kind {
		case events.KindExited:
			body = t.Paint(bad, body)
		case events.KindReady:
			body = t.Paint(good, body)
		}
		out = append(out, t.Paint(dim, head)+body)
	}
	return out
}
