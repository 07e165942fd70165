package realladder

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// column is one column of the tables.
type column struct {
	title string
	value func(figures) float64
	show  func(float64) string
	// more: a larger figure is the better one.
	more bool
}

func columns() []column {
	return []column{
		{"sessions/h", func(f figures) float64 { return f.SessionsPerHour }, whole, true},
		{"tokens/min", func(f figures) float64 { return f.TokensPerMinute }, whole, true},
		{"TTFT p50", func(f figures) float64 { return f.P50 }, seconds, false},
		{"p95", func(f figures) float64 { return f.P95 }, seconds, false},
		{"max", func(f figures) float64 { return f.Max }, seconds, false},
		{"first turns p50", func(f figures) float64 { return f.FirstP50 }, seconds, false},
		{"later turns p50", func(f figures) float64 { return f.LaterP50 }, seconds, false},
		{"session p50", func(f figures) float64 { return f.SessionP50 }, seconds, false},
		{"cached", func(f figures) float64 { return 100 * f.Cached }, percent, true},
		{"failed", func(f figures) float64 { return f.Failed }, whole, false},
		{"cut", func(f figures) float64 { return f.NotFinished }, whole, false},
	}
}

func whole(v float64) string   { return number("%.0f", v) }
func seconds(v float64) string { return number("%.2f s", v) }
func percent(v float64) string { return number("%.0f %%", v) }

func number(format string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}

// WriteMarkdown writes the report for people.
func (r Report) WriteMarkdown(w io.Writer) error {
	var b strings.Builder
	r.writeHead(&b)
	for _, n := range r.sessions() {
		fmt.Fprintf(&b, "\n## %d sessions\n\nMeasured (medians of the rounds):\n\n", n)
		r.writeMeasured(&b, n)
		r.writeAgainstBest(&b, n)
		r.writeSimulated(&b, n)
		r.writeBound(&b, n)
		r.writeTradeOff(&b, n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeHead(b *strings.Builder) {
	const minute = "2006-01-02 15:04 MST"
	fmt.Fprintf(b, "# The ladder on real vLLM\n\nBegun %s", r.Started.Format(minute))
	for _, also := range r.Further {
		fmt.Fprintf(b, ", more runs of other loads %s", also.Format(minute))
	}
	b.WriteString(". ")
	r.Machine.WriteMarkdown(b)
	s := r.Shape
	fmt.Fprintf(b, "%d replicas of vLLM's CPU build. Closed loop, %.0f s a cell, cold caches. Lengths are the reference load's divided by %d: "+
		"%d tokens shared, %d first, %d each further turn, %d to %d of output, %d turns. One cell of a minute varies by about %.0f %%.\n",
		replicas, r.Seconds, r.Scale, s.System, s.First, s.Next, outputMin, outputMax, s.Turns, 100*noise)
	if len(r.Rates) > 0 {
		x := mean(r.Rates)
		fmt.Fprintf(b, "\nThis machine's rates, measured on both engines at once, mean of %d measurements over the run: a cold prompt of n tokens takes "+
			"%.0f ms + %.3f ms·n + %.2g ms·n²; a decode step %.2f ms + %.2f ms a request + %.2g ms a token of context. Each fit is within %.0f %%.%s Each load is simulated with the rates of its own run.\n",
			len(r.Rates), 1e3*x.Prefill[0], 1e3*x.Prefill[1], 1e3*x.Prefill[2], 1e3*x.Decode[0], 1e3*x.Decode[1], 1e3*x.Decode[2], 100*x.Error, cachedText(x.Cached))
	}
	for _, a := range r.Absent {
		fmt.Fprintf(b, "\nAbsent: %s (%s).\n", a.Arm, a.Why)
	}
}

// cachedText says what a cached token costs.
func cachedText(seconds float64) string {
	if seconds == 0 {
		return " What a cached token costs was not measured and counts as nothing."
	}
	return fmt.Sprintf(" A cached token of a prompt takes %.1f µs.", 1e6*seconds)
}

func (r Report) writeMeasured(b *strings.Builder, sessions int) {
	titles := []string{"arm", "rounds"}
	for _, c := range columns() {
		titles = append(titles, c.title)
	}
	head(b, titles)
	for _, arm := range r.Arms {
		f, rounds := r.median(arm, sessions)
		if rounds == 0 {
			continue
		}
		cells := []string{arm, fmt.Sprint(rounds)}
		for _, c := range columns() {
			cells = append(cells, c.show(c.value(f)))
		}
		row(b, cells)
	}
}

// writeAgainstBest holds admission against the best of the others, column by
// column: that may be another arm in each.
func (r Report) writeAgainstBest(b *strings.Builder, sessions int) {
	mine, rounds := r.median(ours, sessions)
	if rounds == 0 || len(r.Arms) < 2 {
		return
	}
	fmt.Fprintf(b, "\n%s against the best other arm of each column:\n\n", ours)
	head(b, []string{"column", "admission", "best other", "which", "ratio"})
	for _, c := range columns() {
		best, which := math.NaN(), ""
		for _, arm := range r.Arms {
			f, rounds := r.median(arm, sessions)
			v := c.value(f)
			if strings.HasPrefix(arm, ours) || rounds == 0 || math.IsNaN(v) || !math.IsNaN(best) && (v > best) != c.more {
				continue
			}
			best, which = v, arm
		}
		row(b, []string{c.title, c.show(c.value(mine)), c.show(best), which, ratioText(c.value(mine), best)})
	}
}

func ratioText(a, b float64) string {
	if b == 0 || math.IsNaN(a/b) {
		return "-"
	}
	return fmt.Sprintf("%.2f", a/b)
}

// writeSimulated sets the simulated cells beside the measured ones.
func (r Report) writeSimulated(b *strings.Builder, sessions int) {
	fmt.Fprintf(b, "\nSIMULATED, in virtual time with the rates above (of %d seeds the one with the median tokens/min), against measured:\n\n", seeds)
	head(b, []string{"arm", "tokens/min SIMULATED", "measured", "ratio", "p50 SIMULATED", "measured", "p95 SIMULATED", "measured", "cached SIMULATED", "measured"})
	for _, arm := range r.Arms {
		f, rounds := r.median(arm, sessions)
		s, ok := r.simulated(arm, sessions)
		if !ok || rounds == 0 {
			continue
		}
		row(b, []string{
			arm, whole(s.TokensPerMinute), whole(f.TokensPerMinute), ratioText(s.TokensPerMinute, f.TokensPerMinute),
			seconds(s.P50), seconds(f.P50), seconds(s.P95), seconds(f.P95), percent(100 * s.Cached), percent(100 * f.Cached),
		})
	}
	alike, equal, other := r.orders(sessions)
	fmt.Fprintf(b, "\nOf the %d pairs of arms that differ by more than %.0f %% in measured tokens/min the simulated engine orders %d alike, tells %d not apart%s, and orders %d the other way%s.\n",
		alike+len(equal)+len(other), 100*noise, alike, len(equal), named(equal), len(other), named(other))
}

// writeBound says what is left to gain.
func (r Report) writeBound(b *strings.Builder, sessions int) {
	for _, cell := range r.Bounds {
		if cell.Sessions != sessions {
			continue
		}
		f := figuresOfSimulated(cell.Result)
		fmt.Fprintf(b, "\nEngines whose KV cache never evicts would give (SIMULATED with the rates above, as accurate as the table): %s sessions/h, %s tokens/min, session p50 %s.\n",
			whole(f.SessionsPerHour), whole(f.TokensPerMinute), seconds(f.SessionP50))
	}
}

// writeTradeOff says what overcommit buys and costs.
func (r Report) writeTradeOff(b *strings.Builder, sessions int) {
	titled := false
	for _, cell := range r.TradeOffs {
		if cell.Sessions != sessions {
			continue
		}
		if !titled {
			b.WriteString("\nWhat is handed out beyond the KV cache moves the wait from first turns to all (SIMULATED with the rates above):\n\n")
			head(b, []string{"policy", "tokens/min", "TTFT mean", "p50", "p95", "first turns p50", "session p50", "cached"})
			titled = true
		}
		f := figuresOfSimulated(cell.Result)
		row(b, []string{
			cell.Policy, whole(f.TokensPerMinute), seconds(cell.TTFB.Mean), seconds(f.P50), seconds(f.P95), seconds(f.FirstP50), seconds(f.SessionP50), percent(100 * f.Cached),
		})
	}
}

// named lists pairs in brackets.
func named(pairs [][2]string) string {
	if len(pairs) == 0 {
		return ""
	}
	var out []string
	for _, p := range pairs {
		out = append(out, p[0]+" and "+p[1])
	}
	return " (" + strings.Join(out, "; ") + ")"
}

func head(b *strings.Builder, titles []string) {
	row(b, titles)
	b.WriteString("|" + strings.Repeat("---|", len(titles)) + "\n")
}

func row(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}
