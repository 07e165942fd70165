package tui

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/screen"
)

// phaseOrder is the order of start-up steps; a step that is not in it changes nothing.
var phaseOrder = map[string]int{"spawn": 1, "weights": 2, "compile": 3, "profile": 4, "graphs": 5, "serve": 6}

// furthest remembers how far each replica has come, so that what is shown never goes back within one start: an engine
// may print the progress of a second download after the first.
type furthest map[string]reached

type reached struct {
	generation uint64
	phase      control.Phase
}

// see returns the replica with the furthest phase of its present start.
func (f furthest) see(r control.Replica) control.Replica {
	was := f[r.ID]
	if was.generation != r.Generation {
		was = reached{generation: r.Generation}
	}
	if p := r.Phase; p != nil && !behind(*p, was.phase) {
		was.phase = *p
	}
	f[r.ID] = was
	if r.Phase != nil && was.phase.Name != "" {
		p := was.phase
		r.Phase = &p
	}
	return r
}

// behind reports whether p is a step back from was.
func behind(p, was control.Phase) bool {
	now, before := phaseOrder[p.Name], phaseOrder[was.Name]
	if now != before {
		return now < before
	}
	return p.Name == was.Name && share(p) < share(was)
}

func share(p control.Phase) float64 {
	if p.Total <= 0 {
		return 0
	}
	return float64(p.Done) / float64(p.Total)
}

// startupLines is the start as a picture: what runs, a line per replica, where it stands.
func startupLines(s control.Status, seen furthest, now time.Time, w, h int, t Theme) []string {
	out := []string{startupTitle(s, w, t)}
	rows := make([]control.Replica, len(s.Replicas))
	for i, r := range s.Replicas {
		rows[i] = seen.see(r)
	}
	if room := max(1, h-3); len(rows) > room { // what can move must not scroll away
		rows = unfinishedFirst(rows)[:room]
	}
	for _, r := range rows {
		out = append(out, startupRow(r, now, w, t))
	}
	if hidden := len(s.Replicas) - len(rows); hidden > 0 {
		out = append(out, t.Paint(cell.Dim, fmt.Sprintf(" and %d more", hidden)))
	}
	return append(out, startupFoot(s, now, w, t))
}

func startupTitle(s control.Status, w int, t Theme) string {
	parts := []cell.Fragment{{Long: strings.TrimSpace("warden " + s.Version), Role: cell.Strong}}
	if s.Simulated {
		parts = append(parts, cell.Fragment{Long: "SIMULATED", Role: cell.Warn})
	}
	for _, m := range s.Models {
		parts = append(parts, cell.Fragment{Long: m.Alias + " = " + m.Repo + " " + m.DType, Short: m.Alias},
			cell.Fragment{Long: fmt.Sprintf("dp %d tp %d", m.DP, m.TP), Drop: 2})
	}
	return cell.Join(w, 3, t, append(parts, cell.Fragment{Long: gpuKinds(s.GPUs), Drop: 1})...)
}

// gpuKinds is "4x RTX A4000", or with different cards "2x RTX A4000, 1x RTX 5090".
func gpuKinds(gpus []control.GPU) string {
	var names []string
	counts := map[string]int{}
	for _, g := range gpus {
		name := strings.TrimPrefix(g.Name, "NVIDIA ")
		if counts[name] == 0 {
			names = append(names, name)
		}
		counts[name]++
	}
	for i, n := range names {
		names[i] = strconv.Itoa(counts[n]) + "x " + n
	}
	return strings.Join(names, ", ")
}

func unfinishedFirst(rows []control.Replica) []control.Replica {
	out := make([]control.Replica, 0, len(rows))
	for _, finished := range []bool{false, true} {
		for _, r := range rows {
			if (r.State == control.StateReady) == finished {
				out = append(out, r)
			}
		}
	}
	return out
}

func startupRow(r control.Replica, now time.Time, w int, t Theme) string {
	where := ""
	switch {
	case len(r.GPUs) > 0:
		where = "GPU " + joinInts(r.GPUs)
	case len(r.CPUs) > 0:
		where = "CPU " + joinInts(r.CPUs)
	}
	head := " " + cell.Left(r.ID, 3, t.ASCII) + " " + cell.Left(where, 8, t.ASCII) + " "
	room := min(w, 100) - cell.Width(head)
	if r.State == control.StateReady {
		took := ""
		if !r.StartedAt.IsZero() && r.ReadyAt.After(r.StartedAt) {
			took = cell.Clock(r.ReadyAt.Sub(r.StartedAt))
		}
		return head + t.Paint(cell.Good, " "+cell.Left("ready", room-9, t.ASCII)) + t.Paint(cell.Dim, cell.Right(took, 8, t.ASCII))
	}
	return head + orState(screen.Words(r, now, room, t, false), r.State)
}

// orState: a state this version does not know is still named.
func orState(words, state string) string {
	if strings.TrimSpace(words) == "" || words == " "+cell.Unknown {
		return " " + state
	}
	return words
}

func joinInts(list []int) string {
	if len(list) > 1 {
		return fmt.Sprintf("%d-%d", list[0], list[len(list)-1])
	}
	return strconv.Itoa(list[0])
}

// startupFoot says how many are ready, whether requests are served already, and how long it may take.
func startupFoot(s control.Status, now time.Time, w int, t Theme) string {
	ready := s.Count(control.StateReady)
	words := fmt.Sprintf("%d of %d ready", ready, len(s.Replicas))
	if ready > 0 && s.Listen != "" {
		words += ", already serving on " + s.Listen
	}
	parts := []cell.Fragment{{Long: words}}
	if left, ok := timeLeft(s, now); ok {
		parts = append(parts, cell.Fragment{Long: "~" + cell.Clock(left) + " left", Role: cell.Dim, Drop: 1})
	}
	return cell.Join(w, 6, t, parts...)
}

// timeLeft is what the slowest starting replica still needs, by the time its last start took. ok is false as soon as
// one of them has no such time, or needs longer this time: no number is better than a wrong one.
func timeLeft(s control.Status, now time.Time) (left time.Duration, ok bool) {
	for _, r := range s.Replicas {
		switch r.State {
		case control.StateStarting, control.StateWarming:
		case control.StateReady:
			continue
		default:
			return 0, false
		}
		if r.EstimateSeconds == nil || r.StartedAt.IsZero() {
			return 0, false
		}
		estimate := time.Duration(*r.EstimateSeconds * float64(time.Second))
		rest := estimate - now.Sub(r.StartedAt)
		if rest < 0 {
			return 0, false
		}
		left, ok = max(left, rest), true
	}
	return left.Round(time.Second), ok
}

// readyLines stay on the terminal once everything runs: what to paste, how to watch, how much fits. They may be wider
// than it: a cut line cannot be pasted.
func readyLines(s control.Status, stop string, t Theme) []string {
	names := make([]string, len(s.Models))
	for i, m := range s.Models {
		names[i] = m.Alias
	}
	first := fmt.Sprintf(" serving %s on %s/v1", strings.Join(names, ", "), s.Listen)
	if s.Simulated {
		first += "  SIMULATED: no figure here was measured on a GPU"
	}
	out := []string{t.Paint(cell.Good, first)}
	out = append(out, capacityLines(s)...)
	return append(out, " export ANTHROPIC_BASE_URL="+s.Listen, " live view: `warden top`, stop: "+stop)
}

// capacityLines say before any load how much conversation fits, and what was chosen for it: a user must not find out by
// eviction.
func capacityLines(s control.Status) []string {
	var out []string
	for _, m := range s.Models {
		if text := advice.Capacity(m, s.Replicas); text != "" {
			out = append(out, " "+m.Alias+": "+text)
		}
		if text := advice.Tier(m); text != "" {
			out = append(out, "   "+text)
		}
		for _, text := range advice.Chosen(m) {
			out = append(out, "   "+text)
		}
	}
	return out
}
