package screen

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/lm-warden/warden/tui/cell"
)

// logSection is the end of the selected replica's log on the overview.
func (s State) logSection(w int, t cell.Theme) section {
	r, ok := s.current()
	if !ok {
		return section{}
	}
	return section{min: 3, want: 1 + max(2, len(s.log.lines)), draw: func(h int) []string {
		out := []string{t.Paint(dim, " LOG "+r.ID+"   (l full screen)")}
		for _, l := range s.logTail(r.ID, h-1) {
			out = append(out, " "+cell.Cut(l, w-2, t.ASCII))
		}
		return out
	}}
}

// logTail is the last h lines, if they are those of the replica.
func (s State) logTail(replica string, h int) []string {
	if s.log.replica != replica {
		return nil
	}
	return s.log.lines[max(0, len(s.log.lines)-max(h, 0)):]
}

// logScreen is the log in full height.
func (s State) logScreen(w, h int, t cell.Theme) []string {
	r, _ := s.current()
	var all []string
	if s.log.replica == r.ID {
		all = s.log.lines
	}
	found := all
	if s.log.search != "" {
		found = nil
		for _, l := range all {
			if matches(s.log.search, l) {
				found = append(found, l)
			}
		}
	}
	return append([]string{t.Rule(w), s.logTitle(r.ID, len(found), len(all), w, t)}, s.logLines(found, w, h-2, t)...)
}

func (s State) logTitle(replica string, found, all, w int, t cell.Theme) string {
	parts := []cell.Fragment{{Long: "LOG " + replica, Role: strong}}
	switch {
	case s.log.follow:
		parts = append(parts, cell.Fragment{Long: "following", Role: good})
	case s.log.up > 0:
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d lines from the end", s.log.up), Role: warn})
	default:
		parts = append(parts, cell.Fragment{Long: "not following", Role: warn})
	}
	if s.log.search != "" {
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d of %d lines with %s", found, all, quote(s.log.search)), Role: accent})
	} else {
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d lines", all)})
	}
	if s.log.wrap {
		parts = append(parts, cell.Fragment{Long: "wrapped"})
	}
	if s.log.err != "" {
		parts = append(parts, cell.Fragment{Long: s.log.err, Role: bad})
	}
	return cell.Join(w, 2, t, parts...)
}

// logLines draws the h lines that end s.log.up lines before the last.
func (s State) logLines(lines []string, w, h int, t cell.Theme) []string {
	if len(lines) == 0 {
		return []string{t.Paint(dim, " no lines")}
	}
	end := max(1, len(lines)-min(s.log.up, len(lines)-1))
	var out []string
	for i := end - 1; i >= 0 && len(out) < h; i-- {
		l := lines[i]
		if !s.log.wrap {
			out = append(out, " "+cell.Cut(l, w-2, t.ASCII))
			continue
		}
		parts := strings.Split(ansi.Hardwrap(l, w-2, true), "\n")
		for j := len(parts) - 1; j >= 0; j-- {
			out = append(out, " "+parts[j])
		}
	}
	out = out[:min(len(out), max(h, 0))]
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out
}
