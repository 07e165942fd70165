package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// gapFor sets facts apart as far as the room allows.
func gapFor(w int) int {
	if w >= wideWidth {
		return 3
	}
	return 2
}

// header says what runs and how it does, in two lines.
func (s State) header(w int, t, bright cell.Theme) []string {
	p := s.shown()
	if p.at.IsZero() {
		return []string{cell.Join(w, gapFor(w), t, cell.Fragment{Long: "warden", Role: strong}), s.banner(w, bright)}
	}
	second := s.figuresLine(w, t)
	if s.lost() {
		second = s.banner(w, bright)
	}
	return []string{s.identityLine(w, t), second}
}

func (s State) identityLine(w int, t cell.Theme) string {
	status := s.shown().status
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
	if s.frozen != nil {
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
	if s.readOnly {
		parts = append(parts, cell.Fragment{Long: "view only", Drop: 3})
	}
	return cell.Join(w, gapFor(w), t, append(parts,
		cell.Fragment{Long: status.Listen, Short: strings.TrimPrefix(status.Listen, "http://"), Drop: 2},
		cell.Fragment{Long: "up " + cell.Age(s.daemonNow().Sub(status.StartedAt)), Drop: 4})...)
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
func (s State) modelHeading(r control.Replica, w int, t cell.Theme) string {
	status := s.shown().status
	m, ok := modelOf(status, r)
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

func (s State) figuresLine(w int, t cell.Theme) string {
	status := s.shown().status
	tot := status.Totals
	errorsRole := plain
	errorsDrop := 5
	if tot.Errors > 0 {
		errorsRole, errorsDrop = bad, 1
	}
	parts := []cell.Fragment{
		{Long: number(known(tot.RequestsPerSecond), cell.Rate).s + " req/s"},
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
	if w >= wideWidth {
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
func (s State) banner(w int, t cell.Theme) string {
	silent := cell.Age(s.silence())
	var words string
	switch {
	case s.live.at.IsZero() && s.link.refuse:
		words = s.link.err + ", waiting for one"
	case s.live.at.IsZero():
		words = "waiting for the daemon's first answer, " + silent
	case s.link.gone, s.link.refuse:
		words = "warden has stopped, last data " + silent + " ago, waiting for it to come back"
	default:
		words = "daemon not answering, last data " + silent + " ago, reconnecting"
	}
	if s.silence() > leaveAfter/2 {
		words += fmt.Sprintf(" (leaving in %s)", cell.Age(max(0, leaveAfter-s.silence()).Round(time.Second)))
	}
	return t.Paint(bad, " "+cell.Cut("! "+words, w-1, t.ASCII))
}
