package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

// gapFor sets facts apart as far as the room allows.
func gapFor(w int) int {
	if w >= state.WideWidth {
		return 3
	}
	return 2
}

// header says what runs and how it does, in two lines.
func (s view) header(w int, t, bright cell.Theme) []string {
	p := s.Shown()
	if p.At.IsZero() {
		return []string{cell.Join(w, gapFor(w), t, cell.Fragment{Long: "warden", Role: strong}), s.banner(w, bright)}
	}
	second := s.figuresLine(w, t)
	if s.Lost() {
		second = s.banner(w, bright)
	}
	return []string{s.identityLine(w, t), second}
}

func (s view) identityLine(w int, t cell.Theme) string {
	status := s.Shown().Status
	ready := fmt.Sprintf("%d/%d ready", status.Count(control.StateReady), len(status.Replicas))
	readyRole := warn
	if status.Count(control.StateReady) == len(status.Replicas) {
		readyRole = good
	}
	parts := []cell.Fragment{{Long: "warden " + status.Version, Short: "warden", Role: strong}}
	if status.Version == "" {
		parts[0].Long = "warden"
	}
	if status.Simulated {
		parts = append(parts, cell.Fragment{Long: "SIMULATED", Role: warn})
	}
	if s.Paused() {
		parts = append(parts, cell.Fragment{Long: "PAUSED", Role: warn})
	}
	if status.State == control.DaemonStopping {
		parts = append(parts, cell.Fragment{Long: "STOPPING", Role: warn})
	}
	single := len(status.Models) == 1
	if single {
		parts = append(parts, nameFragment(status.Models[0]))
	} else {
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d models", len(status.Models)), Drop: 1})
	}
	parts = append(parts, cell.Fragment{Long: ready, Role: readyRole})
	if single {
		parts = append(parts, shapeFragments(status.Models[0])...)
	}
	if s.ReadOnly {
		parts = append(parts, cell.Fragment{Long: "view only", Drop: 3})
	}
	return cell.Join(w, gapFor(w), t, append(parts,
		cell.Fragment{Long: status.Listen, Short: strings.TrimPrefix(status.Listen, "http://"), Drop: 2},
		cell.Fragment{Long: "up " + cell.Age(s.DaemonNow().Sub(status.StartedAt)), Drop: 4})...)
}

func nameFragment(m control.Model) cell.Fragment {
	name := m.Alias
	long := name
	if m.Repo != "" && m.Repo != m.Alias {
		long += " = " + m.Repo
	}
	if m.DType != "" {
		long += " " + m.DType
	}
	return cell.Fragment{Long: long, Short: name}
}

// shapeFragments: replicas and how requests are placed on them.
func shapeFragments(m control.Model) []cell.Fragment {
	affinity := "affinity off"
	switch {
	case m.Affinity && m.Policy == control.PolicyAdmission:
		affinity = "affinity on (admission)"
	case m.Affinity:
		affinity = "affinity on"
	}
	out := []cell.Fragment{{Long: fmt.Sprintf("dp %d tp %d", m.DP, m.TP), Drop: 5}, {Long: affinity, Role: accent}}
	if m.Affinity {
		spill := fmt.Sprint(m.SpillLimit)
		if m.SpillAuto {
			spill += " (auto)"
		}
		out = append(out, cell.Fragment{Long: "spill limit " + spill, Tiny: "spill " + spill})
	}
	return out
}

// modelHeading stands above the rows of a model when there are several.
func (s view) modelHeading(r control.Replica, w int, t cell.Theme) string {
	status := s.Shown().Status
	m, ok := state.ModelOf(status, r)
	if !ok {
		return t.Paint(strong, " "+cell.Cut(r.Model, w-1, t.ASCII))
	}
	name := nameFragment(m)
	name.Role = strong
	ready, all := 0, 0
	for _, o := range status.Replicas {
		if o.Model == m.Alias {
			all++
			if o.State == control.StateReady {
				ready++
			}
		}
	}
	parts := append([]cell.Fragment{name, {Long: fmt.Sprintf("%d/%d ready", ready, all)}}, shapeFragments(m)...)
	return cell.Join(w, gapFor(w), t, append(parts, cell.Fragment{Long: fmt.Sprintf("sessions %d", m.SessionsLive), Drop: 6})...)
}

func (s view) figuresLine(w int, t cell.Theme) string {
	status := s.Shown().Status
	tot := status.Totals
	errorsRole := plain
	errorsDrop := 5
	if tot.Errors > 0 {
		errorsRole, errorsDrop = bad, 1
	}
	parts := []cell.Fragment{
		{Long: number(state.Known(tot.RequestsPerSecond), cell.Rate).s + " req/s"},
		{Long: "prefill " + perSecond(tot.PrefillTokensPerSecond).s + " tok/s", Drop: 3},
		{Long: "decode " + perSecond(tot.DecodeTokensPerSecond).s + " tok/s", Drop: 2},
		{Long: timesText(tot.TTFT, w), Drop: 1},
		{Long: fmt.Sprintf("sessions %d live, %d seen", tot.SessionsLive, tot.SessionsSeen), Short: fmt.Sprintf("sessions %d", tot.SessionsLive), Drop: 6},
		{Long: "errors " + cell.Count(float64(tot.Errors)), Role: errorsRole, Drop: errorsDrop},
		{Long: "retried " + cell.Count(float64(tot.Retried)), Drop: 7},
	}
	if note := gpuNote(status); note != "" {
		parts = append(parts, cell.Fragment{Long: note, Short: "GPU data: none", Role: warn, Drop: 1})
	}
	return cell.Join(w, gapFor(w), t, parts...)
}

func timesText(q *control.Quantiles, w int) string {
	value := func(which func(*control.Quantiles) float64) string { return quantile(q, which).s }
	out := "TTFT p50 " + value(func(q *control.Quantiles) float64 { return q.P50 }) +
		" p95 " + value(func(q *control.Quantiles) float64 { return q.P95 })
	if w >= state.WideWidth {
		out += " p99 " + value(func(q *control.Quantiles) float64 { return q.P99 })
	}
	return out
}

// gpuNote says why there are no GPU columns, where somebody expects them.
func gpuNote(s control.Status) string {
	if len(s.GPUs) > 0 {
		return ""
	}
	if s.GPUNote != "" {
		return "GPU data: none (" + s.GPUNote + ")"
	}
	for _, m := range s.Models {
		if m.Device == "cuda" {
			return "GPU data: none (doctor)"
		}
	}
	return ""
}

// banner says that the picture may be untrue. It is drawn in full colour over a faded screen.
func (s view) banner(w int, t cell.Theme) string {
	silent := cell.Age(s.Silence())
	var words string
	switch {
	case !s.Known() && s.Link.Refused:
		words = s.Link.Err + ", waiting for one"
	case !s.Known():
		words = "waiting for the daemon's first answer, " + silent
	case s.Link.Gone, s.Link.Refused:
		words = "warden has stopped, last data " + silent + " ago, waiting for it to come back"
	default:
		words = "daemon not answering, last data " + silent + " ago, reconnecting"
	}
	if s.Silence() > state.LeaveAfter/2 {
		words += fmt.Sprintf(" (leaving in %s)", cell.Age(max(0, state.LeaveAfter-s.Silence()).Round(time.Second)))
	}
	return t.Paint(bad, " "+cell.Cut("! "+words, w-1, t.ASCII))
}
