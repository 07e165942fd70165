package screen

import (
	"fmt"

	"github.com/lm-warden/warden/tui/cell"
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
func (s view) logScreen(w int, t cell.Theme) []string {
	r, _ := s.Current()
	if s.Log.Replica != r.ID {
		s.Log.Lines = nil
	}
	found := s.Log.Found()
	rows, behind := s.LogRows(found)
	out := []string{t.Rule(w), s.logTitle(r.ID, len(found), behind, w, t)}
	if len(found) == 0 {
		return append(out, t.Paint(dim, " no lines"))
	}
	for _, row := range rows {
		out = append(out, " "+cell.Cut(row, w-2, t.ASCII))
	}
	return out
}

func (s view) logTitle(replica string, found, behind, w int, t cell.Theme) string {
	parts := []cell.Fragment{{Long: "LOG " + replica, Role: strong}}
	switch {
	case s.Log.Follow:
		parts = append(parts, cell.Fragment{Long: "following", Role: good})
	case behind > 0:
		parts = append(parts, cell.Fragment{Long: fmt.Sprintf("%d %s from the end", behind, plural(behind, "line", "lines")), Role: warn})
	default:
		parts = append(parts, cell.Fragment{Long: "not following", Role: warn})
	}
	all := len(s.Log.Lines)
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
