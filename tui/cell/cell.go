// Package cell turns values into text of an exact width in terminal cells.
//
// Read in this order: cell.go (cut, pad, clean), units.go (numbers as people read them), bar.go (bars, sparklines,
// stacked columns). Everything is a pure function; nothing here knows colours or what is shown.
package cell

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Unknown stands for a number that is not known; never a zero.
const Unknown = "-"

// Width is the number of terminal cells that s takes.
func Width(s string) int {
	if n, ok := quickWidth(s); ok {
		return n
	}
	return ansi.StringWidth(s)
}

// quickWidth measures what this program itself draws: ASCII, its bars, lines and arrows, and colour sequences. Anything
// else is left to the full rules, which cost some twenty times as much.
func quickWidth(s string) (n int, ok bool) {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= 0x20 && c < 0x7f:
			i, n = i+1, n+1
		case c == 0x1b && strings.HasPrefix(s[i:], "\x1b["):
			end := strings.IndexByte(s[i:], 'm')
			if end < 0 || strings.Trim(s[i+2:i+end], "0123456789;") != "" {
				return 0, false
			}
			i += end + 1
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if !(r >= 0x2500 && r <= 0x259f || r == '…' || r == '°' || r == '↑' || r == '↓') {
				return 0, false
			}
			i, n = i+size, n+1
		}
	}
	return n, true
}

// Cut shortens s to at most w cells and marks the loss with one ellipsis cell.
func Cut(s string, w int, ascii bool) string {
	if w <= 0 {
		return ""
	}
	if isPlain(s) && len(s) <= w {
		return s
	}
	tail := "…"
	if ascii {
		tail = "~"
	}
	return ansi.Truncate(s, w, tail)
}

// isPlain reports whether bytes are cells: the common case, and far cheaper to tell than to measure.
func isPlain(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// Left pads s with spaces on the right to exactly w cells, cutting what is too long.
func Left(s string, w int, ascii bool) string {
	s = Cut(s, w, ascii)
	return s + Spaces(w-Width(s))
}

// Right pads s with spaces on the left to exactly w cells, cutting what is too long.
func Right(s string, w int, ascii bool) string {
	s = Cut(s, w, ascii)
	return Spaces(w-Width(s)) + s
}

// Spaces returns n spaces, none for a negative n.
func Spaces(n int) string {
	if n <= 0 {
		return ""
	}
	return strings.Repeat(" ", n)
}

// Clean makes text from outside (engine logs, client names, errors) safe to draw on one line: without it a log line
// could move the cursor, recolour the screen or set the terminal's title. Escape sequences and control characters
// go, tabs become spaces, and so do characters that would reorder or hide what follows.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	s = strings.ToValidUTF8(ansi.Strip(strings.ToValidUTF8(s, "\uFFFD")), "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n':
			return ' '
		case r == utf8.RuneError:
			return '?'
		case unicode.IsControl(r), unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp):
			return -1
		}
		return r
	}, s)
}
