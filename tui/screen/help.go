package screen

import (
	"strings"

	"github.com/charmbracelet/bubbles/help"
	"github.com/charmbracelet/bubbles/key"
	"github.com/charmbracelet/lipgloss"
	"github.com/lm-warden/warden/tui/cell"
)

// glossary says what each column counts, exactly.
var glossary = [][2]string{
	{"REQ", "requests held: placed here, last byte not yet sent"},
	{"STICKY", "live sessions whose home is this replica"},
	{"SPILL", "sessions whose latest turn was served here, away from their home"},
	{"RUN, WAIT", "what the engine runs, and has waiting"},
	{"KV CACHE", "KV blocks of running requests; not how full the prefix cache is"},
	{"HIT", "prompt tokens found in the prefix cache, of those looked up in 60 s"},
	{"PRE", "running requests thrown back to waiting in 60 s"},
	{"TTFT", "time to the first token in the last 60 s: median (TTFT95: 95 of 100)"},
	{"PREFILL", "prompt tokens computed per second, without those from the cache"},
	{"DECODE", "tokens generated per second"},
	{"UTIL W °C", "the GPU: busy share of time, power, temperature (of several: mean, sum, largest)"},
	{"RST", "restarts since warden started"},
	{"all", "sums; the largest of KV; HIT and TTFT over all requests, never a mean of means"},
}

// helpColumns is from where keys and columns stand side by side without being cut.
const helpColumns = 176

// helpLines tell the keys and the columns; side by side where there is room.
func (s view) helpLines(w int, t cell.Theme) []string {
	if w < helpColumns {
		return append(append(s.keyLines(w, t), ""), columnLines(w, t)...)
	}
	left, right := s.keyLines(w/2-1, t), columnLines(w-w/2, t)
	h := max(len(left), len(right))
	left, right = fill(left, h), fill(right, h)
	for i := range left {
		left[i] = cell.Left(left[i], w/2, t.ASCII) + right[i]
	}
	return left
}

// keyHelp draws keys in the colours of the theme: a style of lipgloss would choose by what it thinks of stdout.
func keyHelp(t cell.Theme) help.Model {
	name := lipgloss.NewStyle().PaddingRight(1).Transform(func(column string) string {
		lines := strings.Split(column, "\n")
		for i, l := range lines {
			lines[i] = t.Paint(accent, l)
		}
		return strings.Join(lines, "\n")
	})
	return help.Model{ShortSeparator: "  ", Styles: help.Styles{FullKey: name}}
}

// keyFooter names the keys of the screen in one line.
func (s view) keyFooter(w int, t cell.Theme) string {
	h := keyHelp(t)
	fits := func(keys []key.Binding) bool { // counted rather than drawn: it is asked several times a picture
		n := -len(h.ShortSeparator)
		for _, k := range keys {
			n += len(h.ShortSeparator) + cell.Width(k.Help().Key) + 1 + cell.Width(k.Help().Desc)
		}
		return n < w
	}
	return " " + h.ShortHelpView(s.FooterKeys(t.ASCII, fits))
}

func (s view) keyLines(w int, t cell.Theme) []string {
	keys := s.HelpKeys(t.ASCII)
	for i, k := range keys {
		keys[i].SetHelp(k.Help().Key, cell.Cut(k.Help().Desc, w-14, t.ASCII)) // one line each
	}
	out := []string{t.Paint(strong, " KEYS")}
	for l := range strings.Lines(keyHelp(t).FullHelpView([][]key.Binding{keys})) {
		out = append(out, "  "+strings.TrimRight(l, " \n"))
	}
	note := "  * not with --view. Ctrl-C leaves `top`; in `up` it stops the replicas."
	if s.ReadOnly {
		note = "  Ctrl-C leaves."
	}
	return append(out, t.Paint(dim, cell.Cut(note, w, t.ASCII)))
}

func columnLines(w int, t cell.Theme) []string {
	out := []string{t.Paint(strong, " COLUMNS")}
	for _, g := range glossary {
		out = append(out, entry(g[0], g[1], w, t))
	}
	return append(out, "", t.Paint(strong, " MARKS"),
		entry("ready !", "something is said about this replica: e explains it", w, t),
		entry(cell.Unknown, "not known, which is not zero", w, t),
		entry("stale 14s", "the engine's figures are that old and decide nothing", w, t))
}

func entry(name, words string, w int, t cell.Theme) string {
	return "  " + t.Paint(accent, cell.Left(name, 11, t.ASCII)) + cell.Cut(words, w-14, t.ASCII)
}
