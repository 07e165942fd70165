package state

import (
	"strings"

	"github.com/charmbracelet/bubbles/viewport"
	"github.com/charmbracelet/x/ansi"
	"github.com/lm-warden/warden/tui/cell"
)

// KeptLines is how much of a log can be scrolled back to.
const KeptLines = 2000

// logFrame is what the log's screen needs besides the log: two lines of header, a rule, its title, the footer; and the
// margins left and right.
const (
	logFrame  = 5
	logMargin = 2
)

// LogView is the log of one replica.
type LogView struct {
	Replica string
	Lines   []string
	Follow  bool
	Wrap    bool
	Search  string
	Top     int // the first row shown, while it does not follow
	Err     string
}

// Found are the lines that the search leaves.
func (l LogView) Found() []string { return l.found(l.Lines) }

func (l LogView) found(lines []string) []string {
	if l.Search == "" {
		return lines
	}
	var out []string
	for _, line := range lines {
		if Matches(l.Search, line) {
			out = append(out, line)
		}
	}
	return out
}

// rows are lines as they stand under each other in w cells.
func (l LogView) rows(lines []string, w int) []string {
	if !l.Wrap {
		return lines
	}
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		if cell.Width(line) <= w { // most do, and measuring is far cheaper than wrapping
			out = append(out, line)
			continue
		}
		out = append(out, strings.Split(ansi.Hardwrap(line, max(w, 1), true), "\n")...)
	}
	return out
}

// LogRows are the rows on the screen, and how many more there are behind them. lines are those found.
func (s State) LogRows(lines []string) (shown []string, behind int) {
	if h := s.logHeight(); s.Log.Follow {
		lines = lines[max(0, len(lines)-h):] // the end is all it needs: lines may come ten times a second
	}
	rows, v := s.logPane(lines)
	end := min(v.YOffset+v.Height, len(rows))
	return rows[min(v.YOffset, end):end], len(rows) - end
}

func (s State) logHeight() int { return max(s.Size.H-logFrame, 0) }

func (s State) logWidth() int { return s.Size.W - logMargin }

// logPane is the window over the rows of lines. It only counts them: it would measure each of them again whenever lines
// come, and cut long ones without a mark.
func (s State) logPane(lines []string) (rows []string, v viewport.Model) {
	rows = s.Log.rows(lines, s.logWidth())
	v = viewport.New(s.logWidth(), s.logHeight())
	v.SetContent(strings.Repeat("\n", max(0, len(rows)-1)))
	if s.Log.Follow {
		v.GotoBottom()
	} else {
		v.SetYOffset(s.Log.Top)
	}
	return rows, v
}

// scrollLog moves the window: reading back stops following, the end resumes it.
func (s State) scrollLog(move func(*viewport.Model)) State {
	_, v := s.logPane(s.Log.Found())
	move(&v)
	s.Log.Top, s.Log.Follow = v.YOffset, v.AtBottom()
	return s
}

func (s State) toggleFollow() State {
	if s.Log.Follow {
		_, v := s.logPane(s.Log.Found())
		s.Log.Top = v.YOffset
	}
	s.Log.Follow = !s.Log.Follow
	return s
}

// keepPlace keeps the line that is read first where it is through a change of how lines become rows.
func (s State) keepPlace(change func(State) State) State {
	if s.Log.Follow || s.Log.Top == 0 {
		return change(s)
	}
	lines, line, row := s.Log.Found(), 0, 0
	for line < len(lines)-1 {
		next := row + len(s.Log.rows(lines[line:line+1], s.logWidth()))
		if next > s.Log.Top {
			break
		}
		line, row = line+1, next
	}
	s = change(s)
	s.Log.Top = len(s.Log.rows(lines[:line], s.logWidth()))
	return s
}

func (s State) logged(m LogLines) State {
	if m.Reset {
		if m.Replica != s.Log.Replica {
			s.Log.Follow, s.Log.Replica = true, m.Replica
		}
		s.Log.Lines, s.Log.Err = nil, ""
	}
	if m.Replica != s.Log.Replica {
		return s // of a replica that was selected before
	}
	if m.Err != nil {
		s.Log.Err = cell.Clean(m.Err.Error())
	}
	lines := append(s.Log.Lines[:len(s.Log.Lines):len(s.Log.Lines)], mapped(m.Lines, cell.Clean)...)
	gone := max(0, len(lines)-KeptLines)
	if !s.Log.Follow && gone > 0 { // what is read stays in place
		s.Log.Top = max(0, s.Log.Top-len(s.Log.rows(s.Log.found(lines[:gone]), s.logWidth())))
	}
	s.Log.Lines = lines[gone:]
	return s
}
