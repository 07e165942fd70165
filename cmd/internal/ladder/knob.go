package ladder

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// writeKnob says what waiting costs, and how the knobs move it. In a closed
// loop without pauses the mean wait is sessions / turns a second - decoding:
// who raises the throughput lowers it, and nothing else does. A policy chooses
// only whose wait it is.
func (r Report) writeKnob(w io.Writer) {
	var rows strings.Builder
	for _, c := range r.Cells {
		if c.Group == groupKnob {
			fmt.Fprintf(&rows, "| %s | %s | %s | %s | %s | %.1f | %.0f | %.0f %% |\n", c.Rung, c.Policy, seconds(c.TTFB.Mean), seconds(c.TTFB.P50),
				seconds(c.TTFB.P95), c.TurnsPerMinute, c.Session.P50, 100*min(1, c.TTFB.Mean/c.TTFB.P95))
		}
	}
	if rows.Len() == 0 {
		return
	}
	fmt.Fprintf(w, "\n### The p95, and the knob\n\nBy Little's law the mean time to first token of a closed loop is sessions / turns per second - decoding. "+
		"A policy chooses only who waits: for a p95 no higher than that of the row, at least the last column's share of all turns has to wait as long. "+
		"`RotateAfter` is the wait of the first in the queue after which a resident conversation gives up its place, `RotateShare` the part of an engine's time that this may cost. `Overcommit` is what is handed out beyond a KV cache, as a share of it: it moves the wait from first turns to all.\n\n"+
		"| load | policy | mean s | p50 s | p95 s | turns/min | session p50 s | least share that waits |\n|---|---|---|---|---|---|---|---|\n%s", rows.String())
}

// knob is admission with other settings than its own.
type knob struct {
	name   string
	config placement.AdmissionConfig
}

func knobs() []knob {
	var all []knob
	for _, k := range []struct {
		after time.Duration
		share float64
	}{
		{10 * time.Second, 0.2}, {20 * time.Second, 0.2}, {20 * time.Second, 1},
		{40 * time.Second, 0.2}, {40 * time.Second, 1}, {60 * time.Second, 0.5}, {120 * time.Second, 0.2},
	} {
		all = append(all, knob{
			fmt.Sprintf("admission, RotateAfter %.0f s, RotateShare %.1f", k.after.Seconds(), k.share),
			placement.AdmissionConfig{RotateAfter: k.after, RotateShare: k.share},
		})
	}
	for _, share := range overcommits() {
		all = append(all, knob{Overcommitted(share), placement.AdmissionConfig{Overcommit: share}})
	}
	return all
}

func overcommits() []float64 { return []float64{-0.05, 0.05, 0.1, 0.2} }

// Overcommits are the policies between which Overcommit moves, as PlayNamed takes
// them: admission with less, none and more of it, then affinity, which hands out
// everything.
func Overcommits() (names []string) {
	for _, share := range overcommits() {
		if share > 0 && !slices.Contains(names, placement.PolicyAdmission) {
			names = append(names, placement.PolicyAdmission)
		}
		names = append(names, Overcommitted(share))
	}
	return append(names, placement.PolicyAffinity)
}

// Overcommitted is the name of admission with that Overcommit, as PlayNamed takes
// it. It must be one of those that are played here: -0.05, 0.05, 0.1 and 0.2.
func Overcommitted(share float64) string {
	return fmt.Sprintf("%s, Overcommit %.2f", placement.PolicyAdmission, share)
}

func knobNames() (names []string) {
	for _, k := range knobs() {
		names = append(names, k.name)
	}
	return names
}
