package screen

import (
	"cmp"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

// sessionWidth is the width of the short session list beside the events.
const sessionWidth = 60

// sideBySide: sessions of the selected replica, and events.
func (s view) sideBySide(w int, t cell.Theme) section {
	current, ok := s.Current()
	list := s.sessionList(current)
	happened := s.eventList(false)
	if !ok {
		return s.eventsSection(w, false, t)
	}
	return section{min: 4, want: 1 + max(len(list), len(happened), 3), draw: func(h int) []string {
		left := append([]string{t.Paint(dim, sessionTitle(current, len(list), false, t))}, s.sessionLines(list, current, sessionWidth-1, false, t)...)
		right := append([]string{t.Paint(dim, " EVENTS")}, s.eventLines(happened[:min(len(happened), max(h-1, 0))], w-sessionWidth-1, t)...)
		left, right = fill(left, h), fill(right, h)
		out := make([]string, h)
		for i := range out {
			out[i] = cell.Left(left[i], sessionWidth, t.ASCII) + t.Divider() + right[i]
		}
		return out
	}}
}

// sessionList: those that a replica serves, the most recent first.
func (s view) sessionList(r control.Replica) []control.Session {
	var out []control.Session
	for _, c := range r.Sessions {
		if s.Filter == "" || state.Matches(s.Filter, c.ID, c.Client, c.Home, c.State, c.Reason, r.ID) {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b control.Session) int { return b.LastSeen.Compare(a.LastSeen) })
	return out
}

func sessionTitle(r control.Replica, n int, full bool, t cell.Theme) string {
	head := " SESSIONS on " + r.ID + " (" + cell.Count(float64(n)) + ")"
	head = cell.Left(head, 25, t.ASCII) + cell.Right("TURNS", 6, t.ASCII) + cell.Right("TOKENS", 7, t.ASCII) +
		cell.Right("LAST", 6, t.ASCII) + cell.Right("HIT", 5, t.ASCII) + "  STATE"
	if full {
		head += "    HOME  PLACED BECAUSE"
	}
	return head
}

func (s view) sessionLines(list []control.Session, r control.Replica, w int, full bool, t cell.Theme) []string {
	if len(list) == 0 {
		return []string{t.Paint(dim, "  none")}
	}
	now := s.DaemonNow()
	out := make([]string, 0, len(list))
	for _, c := range list {
		who := c.Client
		if c.Home != "" && c.Home != r.ID {
			who = "home " + c.Home + ", spilled"
		}
		l := cell.Left(" "+cell.Left(c.ID, 5, t.ASCII)+" "+who, 25, t.ASCII) +
			cell.Right(cell.Count(float64(c.Turns)), 6, t.ASCII) +
			cell.Right(cell.Count(float64(c.Tokens)), 7, t.ASCII) +
			cell.Right(cell.Age(now.Sub(c.LastSeen)), 6, t.ASCII) +
			cell.Right(ratio(c.CachedShare).s, 5, t.ASCII) + "  " + cell.Left(c.State, 7, t.ASCII)
		if full {
			l += "  " + cell.Left(c.Home, 5, t.ASCII) + " " + c.Reason
		}
		l = strings.TrimRight(cell.Cut(l, w, t.ASCII), " ")
		if c.State == "idle" {
			l = t.Paint(dim, l)
		}
		out = append(out, l)
	}
	return out
}

// sessionsSection is the panel: what waits, then every session of the selected replica.
func (s view) sessionsSection(w int, t cell.Theme) section {
	current, ok := s.Current()
	if !ok {
		return section{}
	}
	var lines []string
	if m, ok := state.ModelOf(s.Shown().Status, current); ok && len(m.Queue) > 0 {
		lines = append(lines, t.Paint(warn, " WAITING for a replica: "+cell.Count(float64(len(m.Queue)))))
		for _, q := range m.Queue[:min(len(m.Queue), 5)] {
			lines = append(lines, "  "+cell.Right(cell.Count(float64(q.Position)), 3, t.ASCII)+"  "+cell.Left(q.Session, 8, t.ASCII)+
				cell.Right(cell.Age(s.DaemonNow().Sub(q.Since)), 6, t.ASCII)+"  "+cell.Cut(q.Why, max(0, w-24), t.ASCII))
		}
	}
	list := s.sessionList(current)
	lines = append(lines, t.Paint(dim, sessionTitle(current, len(list), true, t)))
	fixed := len(lines)
	lines = append(lines, s.sessionLines(list, current, w, true, t)...)
	return section{min: min(fixed+1, len(lines)), want: len(lines), draw: func(h int) []string {
		return append(lines[:fixed:fixed], scrolled(s, s.scrolls(state.SessionsPanel), lines[fixed:], h-fixed)...)
	}}
}

// narrowTable is the table of a terminal under 80 cells: one short line per replica.
func (s view) narrowTable(w, h int, t cell.Theme) []string {
	lines := s.tableLines(t)
	current, _ := s.Current()
	head := " " + cell.Left("ID", 5, t.ASCII) + cell.Left("STATE", stateWidth+1, t.ASCII)
	for _, c := range []string{"REQ", "WAIT", "KV", "HIT"} {
		head += cell.Right(c, 6, t.ASCII)
	}
	out := []string{t.Paint(dim, head)}
	for _, l := range lines {
		mark := " "
		if l.ID == current.ID {
			mark = t.Paint(accent, ">")
		}
		word := stateText(l)
		row := mark + cell.Left(l.ID, 5, t.ASCII) + t.Paint(word.role, cell.Left(word.s, stateWidth+1, t.ASCII))
		if words := Words(l.Replica, s.DaemonNow(), w-2-5-stateWidth-1, t, true); words != "" {
			row += words
		} else {
			row += cell.Right(count(l.Held).s, 6, t.ASCII)
			p := state.PointOf(l.Replica)
			row += cell.Right(number(p.Waiting, cell.Count).s, 6, t.ASCII) + cell.Right(number(p.KV, cell.Percent).s, 6, t.ASCII) +
				cell.Right(number(p.Hit, cell.Percent).s, 6, t.ASCII)
		}
		out = append(out, row)
	}
	at := max(1, slices.IndexFunc(lines, func(l line) bool { return l.ID == current.ID })+1)
	room := max(1, h-1)
	from := min(max(0, at-cmp.Or(room/2, 1)), max(0, len(out)-1-room))
	return append(out[:1:1], out[1+from:min(len(out), 1+from+room)]...)
}
