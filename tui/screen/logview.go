package screen

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

// logSection is the end of the selected replica's log on the overview.
func (s view) logSection(w int, t cell.Theme) section {
	r, ok := s.Current()
	if !ok {
		return section{}
	}
	return section{min: 3, want: 1 + max(2, len(s.Log.Lines)), draw: func(h int) []string {
		out := []string{t.Paint(dim, " LOG "+r.ID+"   (l full screen)")}
		for _, l := range s.logTail(r.ID, h-1) {
			out = append(out, " "+cell.Cut(l, w-2, t.ASCII))
		}
		return out
	}}
}

// logTail is the last h lines, if they are those of the replica.
func (s view) logTail(replica string, h int) []string {
	if s.Log.Replica != replica {
		return nil
	}
	return s.Log.Lines[max(0, len(s.Log.Lines)-max(h, 0)):]
}

// logScreen is the log in full height.
func (s view) logScreen(w, h int, t cell.Theme) []string {
	r, _ := s.Current()
	var all []string
	if s.Log.Replica == r.ID {
		all = s.Log.Lines
	}
	found := all
	if s.Log.Search != "" {
		found = nil
		for _, l := range all {
			if state.Matches(s.Log.Search, l) {
				found = append(found, l)
			}
		}
	}
	return append([]string{t.Rule(w), s.logTitle(r.ID, len(found), len(all), w, t)}, s.logLines(found, w, h-2, t)...)
}

func (s view) logTitle(replica string, found, all, w int, t cell.Theme) string {
	parts := []cell.Fragment{{Long: "LOG " + replica, Role: strong}}
	switch {
	case s.Log.Follow:
		parts = append(parts, cell.Fragment{Long: "following", Role: good})
	case s.Log.Up > 0:
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d lines from the end", s.Log.Up), Role: warn})
	default:
		parts = append(parts, cell.Fragment{Long: "not following", Role: warn})
	}
	if s.Log.Search != "" {
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d of %d lines with %s", found, all, quote(s.Log.Search)), Role: accent})
	} else {
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d lines", all)})
	}
	if s.Log.Wrap {
		parts = append(parts, cell.Fragment{Long: "wrapped"})
	}
	if s.Log.Err != "" {
		parts = append(parts, cell.Fragment{Long: s.Log.Err, Role: bad})
	}
	return cell.Join(w, 2, t, parts...)
}

// logLines draws the h lines that end s.log.up lines before the last.
func (s view) logLines(lines []string, w, h int, t cell.Theme) []string {
	if len(lines) == 0 {
		return []string{t.Paint(dim, " no lines")}
	}
	end := max(1, len(lines)-min(s.Log.Up, len(lines)-1))
	var out []string
	for i := end - 1; i >= 0 && len(out) < h; i-- {
		l := lines[i]
		if !s.Log.Wrap {
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
