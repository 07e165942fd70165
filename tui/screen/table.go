package screen

import (
	"fmt"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/explain"
)

const (
	stateWidth = 9
	maxIDWidth = 8
)

// maxWords is the widest that the words of a starting replica get.
const maxWords = 90

// table draws titles, at most h-2 rows and the sum. It always shows the selected row.
func (s view) table(w, h int, t cell.Theme) []string {
	lines := s.tableLines(t)
	idW := 3
	for _, l := range lines {
		idW = min(max(idW, cell.Width(l.ID)), maxIDWidth)
	}
	head := 1 + idW + 1 + stateWidth
	cols := fit(w-head, len(s.Shown().Status.GPUs) > 0)
	out := []string{t.Paint(dim, titles(cols, idW, t))}
	body, selected := s.tableBody(lines, cols, idW, w, t)
	room := max(1, h-2)
	from := 0
	if len(body) > room {
		from = min(max(0, selected-room/2), len(body)-room)
		body = body[from : from+room]
	}
	out = append(out, body...)
	if all := s.Shown().Status.Replicas; len(all) > 1 {
		out = append(out, s.sumRow(s.linesOf(all, t), cols, idW, t)) // of all: a filter hides rows, not load
	}
	return out
}

// tableHeight is what table takes when nothing is left out.
func (s view) tableHeight() int {
	n := 1 + max(1, len(s.Rows()))
	if len(s.Shown().Status.Replicas) > 1 {
		n++
	}
	if models := len(s.Shown().Status.Models); models > 1 {
		n += models
	}
	return n
}

func (s view) tableLines(t cell.Theme) []line { return s.linesOf(s.Rows(), t) }

// linesOf joins replicas with their GPUs and with what is said about them.
func (s view) linesOf(rows []control.Replica, t cell.Theme) []line {
	p := s.Shown()
	byIndex := map[int]control.GPU{}
	for _, g := range p.Status.GPUs {
		byIndex[g.Index] = g
	}
	var out []line
	for _, r := range rows {
		l := line{Replica: r, ascii: t.ASCII, stale: r.Engine != nil && r.Engine.Stale, waits: p.History.Waits(r.ID)}
		for _, i := range r.GPUs {
			if g, ok := byIndex[i]; ok {
				l.gpus = append(l.gpus, g)
			}
		}
		for _, f := range p.Findings {
			l.flagged = l.flagged || f.Level >= explain.Warn && f.About(r.ID)
		}
		out = append(out, l)
	}
	return out
}

func titles(cols []column, idW int, t cell.Theme) string {
	var b strings.Builder
	b.WriteString(" " + cell.Left("ID", idW, t.ASCII) + " " + cell.Left("STATE", stateWidth, t.ASCII))
	for _, c := range cols {
		title := c.title
		if t.ASCII && title == "°C" {
			title = "C"
		}
		switch {
		case title == barColumn:
			b.WriteString("  " + cell.Left(title, c.w-2, t.ASCII))
		case c.left:
			b.WriteString(cell.Left(title, c.w, t.ASCII))
		default:
			b.WriteString(cell.Right(title, c.w, t.ASCII))
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// tableBody draws a row per replica and, with several models, a heading per model. selected is the index of the
// selected row among them.
func (s view) tableBody(lines []line, cols []column, idW, w int, t cell.Theme) (out []string, selected int) {
	current, _ := s.Current()
	models := len(s.Shown().Status.Models)
	heading := ""
	for _, l := range lines {
		if models > 1 && l.Model != heading {
			heading = l.Model
			out = append(out, s.modelHeading(l.Replica, w, t))
		}
		if l.ID == current.ID {
			selected = len(out)
		}
		out = append(out, s.row(l, l.ID == current.ID, cols, idW, w, t))
	}
	if len(out) == 0 {
		what := " no replicas"
		if s.Filter != "" {
			what = " no replica matches " + quote(s.Filter)
		}
		out = append(out, t.Paint(dim, what))
	}
	return out, selected
}

func (s view) row(l line, selected bool, cols []column, idW, w int, t cell.Theme) string {
	mark := " "
	id := cell.Left(l.ID, idW, t.ASCII)
	if selected {
		mark, id = t.Paint(accent, ">"), t.Paint(accent, id)
	}
	word := stateText(l)
	head := mark + id + " " + t.Paint(word.role, cell.Left(word.s, stateWidth, t.ASCII))
	if words := Words(l.Replica, s.DaemonNow(), w-1-idW-1-stateWidth, t, true); words != "" {
		return head + words
	}
	return head + strings.TrimRight(s.figures(l, cols, t), " ")
}

func (s view) figures(l line, cols []column, t cell.Theme) string {
	var b strings.Builder
	for _, c := range cols {
		if c.title == barColumn {
			v := kvCell(l, c.w)
			b.WriteString(t.Paint(v.role, v.s))
			continue
		}
		b.WriteString(c.draw(c.value(l), t))
	}
	return b.String()
}

func (c column) draw(v text, t cell.Theme) string {
	if c.left {
		return t.Paint(v.role, cell.Left(v.s, c.w, t.ASCII))
	}
	return t.Paint(v.role, cell.Right(v.s, c.w, t.ASCII))
}

func (s view) sumRow(lines []line, cols []column, idW int, t cell.Theme) string {
	var b strings.Builder
	b.WriteString(" " + cell.Left("all", idW, t.ASCII) + cell.Spaces(1+stateWidth))
	for _, c := range cols {
		if c.title == barColumn {
			b.WriteString(kvAll(lines, c.w, t.ASCII).s)
			continue
		}
		b.WriteString(c.draw(c.all(lines, s.Shown().Status.Totals), t))
	}
	return t.Paint(strong, strings.TrimRight(b.String(), " "))
}

// stateText is the state in at most stateWidth cells; "!" asks to look closer.
func stateText(l line) text {
	switch l.State {
	case control.StateReady:
		if l.flagged {
			return text{"ready !", warn}
		}
		return text{"ready", good}
	case control.StateWaitingGPU:
		return text{"wait gpu", warn}
	case control.StateStarting, control.StateWarming, control.StateSuspect, control.StateDraining, control.StateStopping:
		return text{l.State, warn}
	case control.StateBackoff, control.StateParked, control.StateStuck:
		return text{l.State, bad}
	default:
		return text{l.State, dim}
	}
}

// Words stand in place of the figures while a replica does not serve normally; "" where figures are to be shown. With
// keys they name the dashboard's keys that help.
func Words(r control.Replica, now time.Time, w int, t cell.Theme, keys bool) string {
	key := func(s string) string {
		if keys {
			return s
		}
		return ""
	}
	switch r.State {
	case control.StateStarting, control.StateWarming:
		return startingWords(r, now, w, t)
	case control.StateSuspect:
		return sentence(w, t, warn, orElse(r.Note, "no answer to its health check, "+cell.Age(now.Sub(r.Since))),
			fmt.Sprintf("%d held, no new ones placed", r.Held))
	case control.StateDraining:
		return sentence(w, t, warn, fmt.Sprintf("%d %s left, %s", r.Held, plural(r.Held, "request", "requests"), cell.Age(now.Sub(r.Since))), r.Note)
	case control.StateBackoff:
		retry := ""
		if r.NextRetry.After(now) {
			retry = "retry in " + cell.Age(r.NextRetry.Sub(now).Round(time.Second))
		}
		return sentence(w, t, bad, causeOf(r), retry, key("l: last lines"))
	case control.StateParked:
		return sentence(w, t, bad, "gave up: "+causeOf(r), key("R: try again"), key("l: why"))
	case control.StateStuck:
		return sentence(w, t, bad, orElse(r.Note, "its processes cannot be ended"), "its GPU is set aside")
	case control.StatePending, control.StateWaitingGPU, control.StateStopping, control.StateStopped:
		return sentence(w, t, dim, r.Note)
	}
	return ""
}

// causeOf is why a replica is not running.
func causeOf(r control.Replica) string {
	if r.Diagnosis != nil && r.Diagnosis.Cause != "" {
		return r.Diagnosis.Cause
	}
	return orElse(r.Note, "cause unknown")
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// sentence joins what is known with gaps; the first part gives way when all do not fit.
func sentence(w int, t cell.Theme, r role, parts ...string) string {
	var known []string
	for _, p := range parts {
		if p != "" {
			known = append(known, p)
		}
	}
	if len(known) == 0 {
		return t.Paint(r, " "+cell.Unknown)
	}
	tail := ""
	for _, p := range known[1:] {
		tail += "   " + p
	}
	if cell.Width(tail) > w*2/3 {
		return t.Paint(r, " "+cell.Cut(known[0]+tail, w-1, t.ASCII))
	}
	return t.Paint(r, " "+cell.Cut(known[0], w-1-cell.Width(tail), t.ASCII)+tail)
}

// startingWords: phase, detail, bar, elapsed and the time the last start took.
func startingWords(r control.Replica, now time.Time, w int, t cell.Theme) string {
	w = min(w, maxWords) // further apart, the eye loses the row
	elapsed := ""
	if !r.StartedAt.IsZero() {
		elapsed = cell.Clock(now.Sub(r.StartedAt))
		if r.EstimateSeconds != nil {
			elapsed += " / ~" + cell.Clock(time.Duration(*r.EstimateSeconds*float64(time.Second)))
		}
	}
	name, detail, bar := r.State, r.Note, ""
	if p := r.Phase; p != nil {
		name, detail = p.Name, orElse(p.Detail, r.Note)
		if p.Total > 0 {
			share := float64(p.Done) / float64(p.Total)
			bar = cell.Bar(share, 18, t.ASCII) + cell.Right(cell.Percent(share), 5, t.ASCII)
			detail = orElse(p.Detail, fmt.Sprintf("%d of %d", p.Done, p.Total))
		}
	}
	left := " " + cell.Left(name, 9, t.ASCII) + " "
	right := "  " + cell.Right(elapsed, 14, t.ASCII)
	room := w - cell.Width(left) - cell.Width(right)
	if bar != "" && room-cell.Width(bar)-1 >= 10 {
		room -= cell.Width(bar) + 1
		bar = " " + bar
	} else {
		bar = ""
	}
	return t.Paint(warn, left) + cell.Left(detail, room, t.ASCII) + t.Paint(warn, bar) + t.Paint(dim, right)
}

func quote(s string) string { return `"` + s + `"` }
