package load

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

// Named is what was measured under one setting.
type Named struct {
	Name   string   `json:"setting"`
	Report Report   `json:"report"`
	Rounds []Report `json:"rounds,omitempty"` // when there were several
}

// column is one figure of the tables.
type column struct {
	title string
	cell  func(Report) string
}

// columns are those of the reference measurement.
var columns = []column{
	{"SESSIONS/H", func(r Report) string { return whole(r.SessionsPerHour) }},
	{"TOKENS/MIN", func(r Report) string { return whole(r.OutputTokensPerMin) }},
	{"TTFB P50", func(r Report) string { return seconds(r.TTFBp50) }},
	{"TTFB P95", func(r Report) string { return seconds(r.TTFBp95) }},
	{"TTFT P50", func(r Report) string { return seconds(r.TTFTp50) }},
	{"BUSY", func(r Report) string { return decimal(r.BusyReplicas) }},
	{"HITS", func(r Report) string { return percent(r.CachedShare) }},
	{"STAYED", func(r Report) string { return percent(r.StayedShare) }},
	{"FAILED", func(r Report) string { return strconv.Itoa(r.TurnsFailed) }},
}

// Legend says what the columns are.
const Legend = `TOKENS/MIN: output tokens. TTFB: first byte of the answer, TTFT: first text, both measured at this client.
BUSY: replicas with at least one of these requests, on average. HITS: cached share of all prompt tokens,
as the engine measured it. STAYED: follow-up turns served by the replica of the turn before.`

// WriteTable prints one row a run.
func WriteTable(w io.Writer, rows []Named) error {
	return writeRows(w, "SETTING\tSESSIONS", rows, func(row Named) (string, func(column) string) {
		return fmt.Sprintf("%s\t%d", row.Name, row.Report.Sessions), func(c column) string { return c.cell(row.Report) }
	})
}

// Pair is the same load under two settings.
type Pair struct{ Off, On Named }

// WriteComparison prints one row a load, each figure as "off -> on".
func WriteComparison(w io.Writer, pairs []Pair) error {
	return writeRows(w, "SESSIONS", pairs, func(p Pair) (string, func(column) string) {
		return strconv.Itoa(p.On.Report.Sessions), func(c column) string {
			return c.cell(p.Off.Report) + " -> " + c.cell(p.On.Report)
		}
	})
}

func writeRows[T any](w io.Writer, head string, rows []T, row func(T) (string, func(column) string)) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range columns {
		head += "\t" + c.title
	}
	fmt.Fprintln(tw, head)
	for _, r := range rows {
		line, cell := row(r)
		for _, c := range columns {
			line += "\t" + cell(c)
		}
		fmt.Fprintln(tw, line)
	}
	return tw.Flush()
}

func whole(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }

func decimal(v *float64) string {
	if v == nil {
		return "-"
	}
	return strconv.FormatFloat(*v, 'f', 2, 64)
}

func seconds(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.2fs", *v)
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100**v)
}
