package screen

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

const (
	minWidth, minHeight = 60, 12
	tableWidth          = 80 // below it: one short line per replica
	chartHeight         = 52 // from it the token charts as well
	noticeHeight        = 2  // a rule and a line
)

// view gives a State the methods that draw it.
type view struct {
	state.State
	reach *int // how far what scrolls can go; known when it is laid out
}

// Render draws a state in exactly size.H lines of at most size.W cells.
func Render(st state.State, size state.Size, t cell.Theme) string {
	picture, _ := Draw(st, size, t)
	return picture
}

// Draw is Render that also tells how far the picture can be scrolled.
func Draw(st state.State, size state.Size, t cell.Theme) (picture string, reach int) {
	if size.W < minWidth || size.H < minHeight {
		return clip([]string{"terminal too small: 60x12 needed"}, size, t), 0
	}
	s := view{st, &reach}
	return clip(s.lines(size, t), size, t), reach
}

func (s view) lines(size state.Size, t cell.Theme) []string {
	bright := t
	if s.Lost() {
		t = t.Faded()
	}
	head := s.header(size.W, t, bright)
	foot := s.footer(size.W, bright)
	body := size.H - len(head) - 1
	var lines []string
	switch s.Screen {
	case state.LogScreen:
		lines = s.logScreen(size.W, t)
	case state.HelpScreen:
		lines = append([]string{t.Rule(size.W)}, scrolled(s, true, s.helpLines(size.W, t), body-1)...)
	case state.DetailScreen:
		lines = append([]string{t.Rule(size.W)}, scrolled(s, true, s.detailLines(size.W, t), body-1)...)
	default:
		lines = s.mainBody(size.W, body, t)
	}
	out := append(head, fill(lines, body)...)
	return append(out, foot)
}

// mainBody is the table and what stands under it.
func (s view) mainBody(w, h int, t cell.Theme) []string {
	out := []string{t.Rule(w)}
	room := min(s.tableHeight(), max(5, h-1-noticeHeight)) // replicas first, then one line of what is wrong
	if w < tableWidth {
		out = append(out, s.narrowTable(w, room, t)...)
	} else {
		out = append(out, s.table(w, room, t)...)
	}
	return append(out, stack(s.sections(w, h-len(out), t), w, h-len(out), t)...)
}

// section is a block of lines under the table. It is drawn once its height is known.
type section struct {
	min  int // fewer lines are of no use
	want int // more lines are of no use
	draw func(h int) []string
}

// sections of the panel that is open, most important first.
func (s view) sections(w, h int, t cell.Theme) []section {
	if s.Shown().At.IsZero() {
		return nil
	}
	notice := s.noticeSection(w, t)
	if s.Explain {
		if w < state.WideWidth {
			return []section{s.adviceSection(w, t)} // whole sentences need the room
		}
		return append([]section{s.adviceSection(w, t)}, s.overview(w, h, t)...)
	}
	switch s.Panel {
	case state.TokensPanel:
		return []section{notice, s.tokensSection(w, t)}
	case state.SessionsPanel:
		return []section{notice, s.sessionsSection(w, t)}
	case state.HistoryPanel:
		return []section{notice, s.historySection(w, t)}
	case state.EventsPanel:
		return []section{notice, s.eventsSection(w, true, t)}
	default:
		return append([]section{notice}, s.overview(w, h, t)...)
	}
}

// overview is a bit of everything. The order is by importance, which is also the order on the screen.
func (s view) overview(w, h int, t cell.Theme) []section {
	hint, empty := s.hintSection(w, t)
	if w < state.WideWidth || h < 20 {
		if empty {
			return []section{hint, s.eventsSection(w, false, t)}
		}
		return []section{s.trendSection(w, t), s.eventsSection(w, false, t)}
	}
	var out []section
	if empty {
		out = append(out, hint)
	} else {
		out = append(out, s.historySection(w, t), s.placementSection(w, t))
	}
	if s.Size.H >= chartHeight {
		out = append(out, s.tokensSection(w, t))
	}
	out = append(out, s.sideBySide(w, t))
	if state.OverviewHasLog(s.State) {
		out = append(out, s.logSection(w, t))
	}
	return out
}

// stack gives h lines to the sections: first each its minimum in order, then what is left, line by line in turn. A
// rule stands above each.
func stack(sections []section, w, h int, t cell.Theme) []string {
	given := make([]int, len(sections))
	left := h
	for i, s := range sections {
		if need := max(s.min, 1) + 1; s.want > 0 && need <= left {
			given[i] = need - 1
			left -= need
		}
	}
	for grown := true; grown && left > 0; {
		grown = false
		for i, s := range sections {
			if given[i] > 0 && given[i] < s.want && left > 0 {
				given[i]++
				left--
				grown = true
			}
		}
	}
	var out []string
	for i, s := range sections {
		if given[i] > 0 {
			out = append(out, t.Rule(w))
			out = append(out, fill(s.draw(given[i]), given[i])...)
		}
	}
	return out
}

// fill makes exactly h lines.
func fill(lines []string, h int) []string {
	if len(lines) > h {
		return lines[:max(h, 0)]
	}
	for len(lines) < h {
		lines = append(lines, "")
	}
	return lines
}

// scrolled returns h lines: the first, or where this is what scrolls those that the user has scrolled to. The last page
// is a full one.
func scrolled[T any](s view, scrolls bool, lines []T, h int) []T {
	h, first := max(h, 0), 0
	if scrolls {
		reach := max(0, len(lines)-h)
		*s.reach = max(*s.reach, reach)
		first = min(s.Scroll, reach)
	}
	return lines[first:min(len(lines), first+h)]
}

// clip is the last guard: no line wider than the terminal, none too many. In ASCII mode nothing else gets out, also
// where a name or a log line holds it.
func clip(lines []string, size state.Size, t cell.Theme) string {
	lines = fill(lines, size.H)
	out := make([]string, len(lines))
	for i, l := range lines {
		if cell.Width(l) > size.W {
			l = cell.Cut(l, size.W, t.ASCII)
		}
		if t.ASCII {
			l = strings.Map(func(r rune) rune {
				if r > 0x7e {
					return '?'
				}
				return r
			}, l)
		}
		out[i] = l
	}
	return strings.Join(out, "\n")
}

// footer is a question, a line being typed, or the keys that work here.
func (s view) footer(w int, t cell.Theme) string {
	switch {
	case s.Ask != nil:
		return t.Paint(warn, " "+cell.Cut(s.Ask.Text, w-1, t.ASCII))
	case s.Input != nil:
		return s.inputLine(w, t)
	default:
		return s.keyFooter(w, t)
	}
}

// inputLine is what is being typed, with a mark where the next character goes.
func (s view) inputLine(w int, t cell.Theme) string {
	what, after := " filter: ", "   enter keep  esc clear"
	if s.Input.Logs {
		what = " search: "
	}
	mark := "▏"
	if t.ASCII {
		mark = "|"
	}
	runes, at := []rune(s.Input.Line.Value()), s.Input.Line.Position()
	before, behind := string(runes[:at]), string(runes[at:])
	room := w - cell.Width(what) - cell.Width(mark) - cell.Width(after)
	if over := cell.Width(before) - room; over > 0 {
		before = ansi.TruncateLeft(before, over, "")
	}
	return what + before + t.Paint(accent, mark) + cell.Cut(behind, room-cell.Width(before), t.ASCII) + after
}
