package screen

import (
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/explain"
)

// adviceSection says of each finding its cause, the evidence and what would help; those about the selected replica
// come first.
func (s view) adviceSection(w int, t cell.Theme) section {
	lines := s.adviceLines(w, t)
	first := slices.Index(append(lines[:len(lines):len(lines)], ""), "") // lines of the first finding
	return section{min: max(first, 1), want: max(len(lines), 1), draw: func(h int) []string {
		return scrolled(s, s.scrolls(s.Panel), lines, h)
	}}
}

func (s view) adviceLines(w int, t cell.Theme) []string {
	found := slices.Clone(s.Shown().Findings)
	if r, ok := s.Current(); ok {
		slices.SortStableFunc(found, func(a, b explain.Finding) int { return weight(b, r.ID) - weight(a, r.ID) })
	}
	var out []string
	for i, f := range found {
		if i > 0 {
			out = append(out, "")
		}
		r := plain
		switch f.Level {
		case explain.Bad:
			r = bad
		case explain.Warn:
			r = warn
		}
		out = append(out, paragraph("cause    ", f.Cause, w, r, t)...)
		out = append(out, paragraph("evidence ", f.Evidence, w, plain, t)...)
		out = append(out, paragraph("remedy   ", f.Remedy, w, plain, t)...)
	}
	return out
}

// weight puts a finding about the selected replica above one elsewhere that is one level worse.
func weight(f explain.Finding, replica string) int {
	n := int(f.Level)
	if f.Level > explain.Fine && f.About(replica) {
		n += 2
	}
	return n
}

// paragraph wraps words behind a label.
func paragraph(label, words string, w int, r role, t cell.Theme) []string {
	var out []string
	for i, l := range strings.Split(ansi.Wrap(words, max(10, w-cell.Width(label)-2), ""), "\n") {
		head := label
		if i > 0 {
			head = cell.Spaces(cell.Width(label))
		}
		out = append(out, " "+t.Paint(dim, head)+t.Paint(r, l))
	}
	return out
}
