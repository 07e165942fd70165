package screen

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

func TestLogLines(t *testing.T) {
	s := press(lived(state.Top, hot(), wide), "l")
	tell := func(m state.LogLines) { s, _ = state.Reduce(s, m) }
	tell(state.LogLines{Replica: "r1", Lines: []string{"of another"}})
	if len(s.Log.Lines) != len(engineLog) {
		t.Errorf("lines of another replica got in: %q", s.Log.Lines)
	}
	many := make([]string, state.KeptLines+5)
	for i := range many {
		many[i] = fmt.Sprint("line ", i)
	}
	tell(state.LogLines{Replica: "r0", Lines: many})
	if n := len(s.Log.Lines); n != state.KeptLines || s.Log.Lines[0] != "line 5" {
		t.Errorf("%d lines from %q", n, s.Log.Lines[0])
	}
	tell(state.LogLines{Replica: "r0", Err: errors.New("the log is gone")})
	if got := Render(s, wide, cell.Theme{}); !strings.Contains(got, "the log is gone") {
		t.Errorf("no error:\n%s", got)
	}
	tell(state.LogLines{Replica: "r0", Reset: true, Lines: []string{"anew"}})
	if got := Render(s, wide, cell.Theme{}); strings.Contains(got, "gone") || !strings.Contains(got, "anew") {
		t.Errorf("after a reset:\n%s", got)
	}
}

// logText is what the log's screen shows of the log.
func logText(s state.State) []string {
	lines := strings.Split(Render(s, wide, cell.Theme{}), "\n")
	return lines[4 : len(lines)-1]
}

// longLog has a hundred lines, of which each tenth is worth a search and each twentieth longer than the screen is wide.
func longLog(from int) []string {
	out := make([]string, 100)
	for i := range out {
		out[i] = fmt.Sprintf("line %04d.", from+i)
		if i%10 == 0 {
			out[i] += " found"
		}
		if i%20 == 0 {
			out[i] += strings.Repeat(" and more", 60)
		}
	}
	return out
}

func TestTheLogScrolls(t *testing.T) {
	for name, tt := range map[string]struct {
		keys        string
		first, last string // of the lines on the screen; the log's window has 35
		title       string
	}{
		"follows":                       {"", "line 0065.", "line 0099.", "following"},
		"a line back":                   {"up", "line 0064.", "line 0098.", "1 line from the end"},
		"and on":                        {"up down", "line 0065.", "line 0099.", "  following"},
		"a page back":                   {"pgup", "line 0030.", "line 0064.", "35 lines from the end"},
		"two pages and one on":          {"pgup b pgdown", "line 0035.", "line 0069.", "30 lines from the end"},
		"to the first":                  {"home", "line 0000.", "line 0034.", "65 lines from the end"},
		"further back there is nothing": {"g up pgup", "line 0000.", "line 0034.", "65 lines from the end"},
		"to the last":                   {"g G", "line 0065.", "line 0099.", "  following"},
		"held at the end":               {"f", "line 0065.", "line 0099.", "not following"},
		"wrapped, the end":              {"w", "line 0069.", "line 0099.", "wrapped"},
		"wrapping keeps the place":      {"pgup w", "line 0030.", "line 0060.", "wrapped"},
		"and so does cutting":           {"w pgup pgup w", "line 0011.", "line 0045.", "54 lines from the end"},
		"a search starts at its end":    {"pgup / f o u n d enter", "line 0000.", "line 0090.", `10 of 100 lines with "found"`},
	} {
		t.Run(name, func(t *testing.T) {
			s := press(lived(state.Top, hot(), wide), "l")
			s, _ = state.Reduce(s, state.LogLines{Replica: "r0", Reset: true, Lines: longLog(0)})
			s = press(s, strings.Fields(tt.keys)...)
			text := slices.DeleteFunc(logText(s), func(l string) bool { return l == "" || !strings.HasPrefix(l, " line") })
			if !strings.Contains(text[0], tt.first) || !strings.Contains(text[len(text)-1], tt.last) {
				t.Errorf("%q shows %.12q to %.12q, want %s to %s", tt.keys, text[0], text[len(text)-1], tt.first, tt.last)
			}
			if got := Render(s, wide, cell.Theme{}); !strings.Contains(got, tt.title) {
				t.Errorf("%q is missing in\n%s", tt.title, got)
			}
		})
	}
}

// TestWhatIsReadStays: lines that come, and those that are forgotten for them, do not move what the user has scrolled to.
func TestWhatIsReadStays(t *testing.T) {
	for _, keys := range []string{"pgup", "f", "w pgup up", "/ f o u n d enter f", "/ f o u n d enter w pgup up"} {
		s := press(lived(state.Top, hot(), wide), "l")
		s, _ = state.Reduce(s, state.LogLines{Replica: "r0", Reset: true})
		for n := 0; n < state.KeptLines; n += 100 {
			s, _ = state.Reduce(s, state.LogLines{Replica: "r0", Lines: longLog(n)})
		}
		s = press(s, strings.Fields(keys)...)
		before := logText(s)
		for n := range 3 {
			s, _ = state.Reduce(s, state.LogLines{Replica: "r0", Lines: longLog(state.KeptLines + 100*n)})
		}
		if diff := cmp.Diff(before, logText(s)); diff != "" {
			t.Errorf("%q: %s", keys, diff)
		}
		narrow, _ := state.Reduce(s, state.Resized{Size: state.Size{W: 100, H: 40}})
		narrow, _ = state.Reduce(narrow, state.Resized{Size: wide})
		if !strings.HasPrefix(logText(narrow)[0], before[0][:10]) && strings.HasPrefix(before[0], " line") {
			t.Errorf("%q: resized, it starts with %q, not %q", keys, logText(narrow)[0], before[0])
		}
	}
}

// TestScrollingEndsWithTheText: keys pressed at the end need not be taken back one by one.
func TestScrollingEndsWithTheText(t *testing.T) {
	size := state.Size{W: 80, H: 24}
	show := func(s state.State) (state.State, string) {
		picture, reach := Draw(s, size, cell.Theme{})
		s, _ = state.Reduce(s, state.Drawn{Reach: reach})
		return s, picture
	}
	for _, open := range []string{"?", "enter", "shift+tab", "e"} {
		s, top := show(press(lived(state.Top, failed(), size), open))
		var moved, end, back string
		s, moved = show(press(s, "pgdown"))
		if moved == top {
			continue // all of it fits
		}
		s, end = show(press(s, "pgdown", "pgdown", "pgdown", "pgdown", "pgdown"))
		if s, back = show(press(s, "pgup")); back == end {
			t.Errorf("%s: a page back from the end shows the end", open)
		}
		if open == "shift+tab" || open == "e" {
			continue // there Home and End select rows
		}
		var last, first string
		s, last = show(press(s, "end"))
		_, first = show(press(s, "home"))
		if last != end || first != top {
			t.Errorf("%s: End shows\n%s\nHome shows\n%s", open, last, first)
		}
	}
}

// BenchmarkRenderLog: a full log is filtered and wrapped anew for each picture while lines come.
func BenchmarkRenderLog(b *testing.B) {
	lines := make([]string, 0, state.KeptLines)
	for len(lines) < state.KeptLines {
		lines = append(lines, longLog(len(lines))...)
	}
	for _, keys := range []string{"l", "l pgup", "l w", "l w pgup", "l / f o u n d enter", "l / f o u n d enter w pgup"} {
		b.Run(keys, func(b *testing.B) {
			s, _ := state.Reduce(lived(state.Top, hot(), wide), state.LogLines{Replica: "r0", Reset: true, Lines: lines})
			s = press(s, strings.Fields(keys)...)
			for b.Loop() {
				Render(s, wide, cell.Theme{})
			}
		})
	}
}
