package screen

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

const (
	chartRows  = 2 // fewer are no chart
	chartMax   = 8
	chartLabel = 8
	chartFacts = 24 // cells right of a chart
)

// tokensSection: prompt tokens per second of each replica, read from the prefix cache against computed, with the
// cached share of the last hour. Charts over the last 60 s where there is room, else one bar per replica.
func (s view) tokensSection(w int, t cell.Theme) section {
	lines := s.tableLines(t)
	n := len(lines)
	return section{min: 2, want: 2 + n*(chartMax+1), draw: func(h int) []string {
		title := " PROMPT TOKENS/s   " + legend(t)
		if n == 0 {
			return []string{title}
		}
		rows := (h-2)/n - 1 // a title for all, a title and a blank around each
		if rows < chartRows || w < tableWidth {
			return append([]string{t.Paint(dim, title)}, s.tokenBars(scrolled(s, s.scrolls(state.TokensPanel), lines, h-1), w, t)...)
		}
		return append([]string{t.Paint(dim, title)}, s.tokenCharts(lines, w, min(rows, chartMax), t)...)
	}}
}

func legend(t cell.Theme) string {
	return cell.Bar(1, 1, t.ASCII) + " read from the prefix cache   " + cell.Bar(0, 1, t.ASCII) + " computed   last 60 s"
}

// tokenCharts draws one stacked chart per replica, all on one scale.
func (s view) tokenCharts(lines []line, w, rows int, t cell.Theme) []string {
	n := w - chartLabel - chartFacts
	n = max(10, min(n-n%10, 120))
	if n > 60 && n < 120 {
		n = 60 // a sample each second: more cells than samples would leave holes
	}
	wide := 1
	if n == 120 {
		n, wide = 60, 2
	}
	charts := make([][]cell.Column, len(lines))
	scale := 0.0
	for i, l := range lines {
		charts[i] = s.tokenColumns(l.ID, n)
		for _, c := range charts[i] {
			scale = max(scale, state.OrZero(c.Lower+c.Upper))
		}
	}
	var out []string
	for i, l := range lines {
		facts := fill(s.tokenFacts(l.Replica), rows)
		for j, row := range cell.Stacked(stretch(charts[i], wide), rows, scale, t.ASCII) {
			label := ""
			switch j {
			case 0:
				label = cell.Right(cell.Count(scale), chartLabel-2, t.ASCII)
			case rows - 1:
				label = " " + l.ID
			}
			out = append(out, strings.TrimRight(cell.Left(label, chartLabel, t.ASCII)+row+"  "+facts[j], " "))
		}
		if i < len(lines)-1 {
			out = append(out, "")
		}
	}
	return out
}

func stretch(columns []cell.Column, times int) []cell.Column {
	if times == 1 {
		return columns
	}
	out := make([]cell.Column, 0, len(columns)*times)
	for _, c := range columns {
		out = append(out, slices.Repeat([]cell.Column{c}, times)...)
	}
	return out
}

func (s view) tokenColumns(replica string, n int) []cell.Column {
	h, now := s.Shown().History, s.DaemonNow()
	cached := h.Series(replica, now, n, false, func(p state.Point) float64 { return p.Cached })
	computed := h.Series(replica, now, n, false, func(p state.Point) float64 { return p.Computed })
	out := make([]cell.Column, n)
	for i := range out {
		out[i] = cell.Column{Lower: cached[i], Upper: computed[i]}
	}
	return out
}

// tokenFacts are the figures beside a chart, most important first.
func (s view) tokenFacts(r control.Replica) []string {
	p := r.PromptTokens
	if p == nil {
		return []string{"no figures yet"}
	}
	return []string{
		fmt.Sprintf("cached %s  computed %s", cell.Count(p.CachedPerSecond), cell.Count(p.ComputedPerSecond)),
		"last hour " + ratio(p.CachedShareHour).s + " cached",
		fmt.Sprintf("in all %s of %s", cell.Count(float64(p.CachedTotal)), cell.Count(float64(p.CachedTotal+p.ComputedTotal))),
	}
}

// tokenBars draws one bar per replica: now, on one scale.
func (s view) tokenBars(lines []line, w int, t cell.Theme) []string {
	scale := 0.0
	for _, l := range lines {
		if p := l.PromptTokens; p != nil {
			scale = max(scale, p.CachedPerSecond+p.ComputedPerSecond)
		}
	}
	const facts = 42
	room := max(10, w-chartLabel-facts)
	var out []string
	for _, l := range lines {
		label := cell.Left(" "+l.ID, chartLabel, t.ASCII)
		p := l.PromptTokens
		if p == nil {
			out = append(out, label+cell.Unknown)
			continue
		}
		total := p.CachedPerSecond + p.ComputedPerSecond
		length, inner := 0, 0
		if scale > 0 {
			length = int(math.Round(total / scale * float64(room)))
			inner = int(math.Round(p.CachedPerSecond / scale * float64(room)))
		}
		inner = min(inner, length)
		bar := cell.Bar(1, inner, t.ASCII) + cell.Bar(0, length-inner, t.ASCII)
		out = append(out, label+cell.Left(bar, room, t.ASCII)+fmt.Sprintf("  cached %s  computed %s  hour %s",
			cell.Right(cell.Count(p.CachedPerSecond), 5, t.ASCII), cell.Right(cell.Count(p.ComputedPerSecond), 5, t.ASCII), cell.Right(ratio(p.CachedShareHour).s, 4, t.ASCII)))
	}
	return out
}
