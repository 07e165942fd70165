package ladder

import (
	"strings"
	"testing"

	"github.com/lm-warden/warden/router/placement"
)

// reportOf and cellOf make a report with the figures that matter to bars.
func reportOf(cells ...Cell) Report { return Report{Cells: cells} }

func cellOf(group, rung, policy string, p50, p95, hits, tokens float64) Cell {
	return Cell{Group: group, Rung: rung, Result: Result{
		Policy: policy, Level: LevelPlacer, TTFB: Percentiles{P50: p50, P95: p95}, HitRate: hits,
		OutputPerMinute: tokens, TurnsPerMinute: tokens / 160, Sessions: 17,
	}}
}

func verdictOf(t *testing.T, r Report, load, demand string) Bar {
	t.Helper()
	for _, b := range r.Judge() {
		if b.Load == load && strings.HasPrefix(b.Demand, demand) {
			return b
		}
	}
	t.Fatalf("no bar %q for %q in %+v", demand, load, r.Judge())
	return Bar{}
}

func TestBars(t *testing.T) {
	const adm, aff = placement.PolicyAdmission, placement.PolicyAffinity
	rung := referenceRung
	tests := []struct {
		name, load, demand string
		report             Report
		want               Verdict
	}{
		{"a rival's p95 is 5 % better", "8 sessions", "each column", reportOf(
			cellOf(groupReference, rung(8), adm, 0.2, 2.10, 0.87, 11000), cellOf(groupReference, rung(8), "lmetric", 0.2, 2.00, 0.87, 11000)), Missed},
		{"within 3 %", "8 sessions", "each column", reportOf(
			cellOf(groupReference, rung(8), adm, 0.2, 2.05, 0.86, 10900), cellOf(groupReference, rung(8), "lmetric", 0.2, 2.00, 0.87, 11000)), Met},
		{"a rival at the router's level is none", "8 sessions", "each column", func() Report {
			routed := cellOf(groupReference, rung(8), aff, 0.1, 1, 0.9, 20000)
			routed.Level = LevelRouter
			return reportOf(cellOf(groupReference, rung(8), adm, 0.2, 2, 0.87, 11000), cellOf(groupReference, rung(8), aff, 0.2, 2, 0.87, 11000), routed)
		}(), Met},
		{"no cache could do it", "16 sessions", "tokens/min", reportOf(
			cellOf(groupReference, rung(16), adm, 0.3, 9, 0.85, 14800), cellOf(groupReference, rung(16), aff, 0.3, 5, 0.86, 15000),
			cellOf(groupEndless, rung(16), aff, 0.3, 2, 0.87, 16000)), Impossible},
		{"a better policy could", "16 sessions", "tokens/min", reportOf(
			cellOf(groupReference, rung(16), adm, 0.3, 9, 0.85, 14800), cellOf(groupReference, rung(16), aff, 0.3, 5, 0.86, 13500),
			cellOf(groupEndless, rung(16), aff, 0.3, 2, 0.87, 16000)), Missed},
		{"one column short", "24 sessions, host tier", "better than 1 other", reportOf(
			cellOf(groupHost, rung(24), adm, 2, 21, 0.85, 15000), cellOf(groupReference, rung(24), aff, 12, 20, 0.29, 8500)), Missed},
		{"the KV cache bounds what runs", "32 sessions, host tier", "more tokens/min", reportOf(
			cellOf(groupHost, rung(32), adm, 2, 21, 0.85, 15000), cellOf(groupReference, rung(32), aff, 12, 30, 0.29, 8500),
			cellOf(groupEndless, holdRung, aff, 0.3, 2, 0.87, 16400)), Impossible},
		{"below affinity", "all", "turns/min never", reportOf(
			cellOf(groupGaps, "x", adm, 1, 1, 0.8, 9600), cellOf(groupGaps, "x", aff, 1, 1, 0.8, 10000)), Missed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := verdictOf(t, tt.report, tt.load, tt.demand)
			if b.Verdict != tt.want {
				t.Errorf("%+v, want %s", b, tt.want)
			}
			if (b.Verdict == Impossible) != (b.Bound != "") {
				t.Errorf("verdict %q with bound %q", b.Verdict, b.Bound)
			}
		})
	}
}

// A turn that waits too long, or is sent away, is seen in any cell.
func TestBarOfTheLongestWait(t *testing.T) {
	c := cellOf(groupOther, "x", placement.PolicyAdmission, 1, 1, 0.8, 100)
	a := cellOf(groupOther, "x", placement.PolicyAffinity, 1, 1, 0.8, 100)
	for _, tt := range []struct {
		wait    float64
		refused int
		want    Verdict
	}{{239, 0, Met}, {241, 0, Missed}, {10, 1, Missed}} {
		c.MaxWait, c.Rejected = tt.wait, tt.refused
		if b := verdictOf(t, reportOf(c, a), "all", "no turn waits"); b.Verdict != tt.want {
			t.Errorf("waited %.0f s, %d refused: %s, want %s", tt.wait, tt.refused, b.Verdict, tt.want)
		}
	}
}

// The bound of the host tier's bar rests on this number.
func TestHolds(t *testing.T) {
	if n := reference(t).holds(Reference(0)); n != 17 {
		t.Errorf("the reference fleet holds %d conversations, want 17: 4 x 36,500 / 8,780", n)
	}
}
