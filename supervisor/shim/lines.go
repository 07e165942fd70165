package shim

import (
	"bytes"
	"strings"
	"time"
	"unicode/utf8"
)

// maxLine is where a line is cut, in bytes; s6-log's limit too.
const maxLine = 8 << 10

// cutMark ends a line that was longer.
const cutMark = " ...[cut]"

// redrawEvery is how often an unfinished progress bar is passed on: enough for a screen, little for a log reader.
const redrawEvery = 250 * time.Millisecond

// splitter turns a byte stream into lines. A line ends at \n or \r\n. A lone \r means that what follows redraws the
// line: such forms are passed on as redraws, at most one every redrawEvery, and only the last becomes a line.
// The zero splitter is ready to use.
type splitter struct {
	pending    []byte
	cut        bool   // pending reached maxLine; the rest of the line is thrown away
	redrawing  bool   // pending began after a \r
	form       string // the last form that a \r ended
	lastRedraw time.Time
	lastText   string // of that redraw
}

// write consumes data read at the time now and calls emit for each line.
func (s *splitter) write(data []byte, now time.Time, emit func(text string, redraw bool)) {
	for len(data) > 0 {
		i := bytes.IndexAny(data, "\r\n")
		if i < 0 {
			s.add(data)
			break
		}
		s.add(data[:i])
		if data[i] == '\n' {
			emit(s.endLine(), false)
		} else if text := s.take(); text != "" {
			s.form = text
			s.redraw(text, now, emit)
		}
		s.redrawing = data[i] == '\r'
		data = data[i+1:]
	}
	// A progress bar writes \r first and its text after it, so its present form has no end yet.
	if s.redrawing && len(s.pending) > 0 {
		s.redraw(clean(s.pending), now, emit)
	}
}

func (s *splitter) redraw(text string, now time.Time, emit func(string, bool)) {
	if text != s.lastText && now.Sub(s.lastRedraw) >= redrawEvery {
		s.lastRedraw, s.lastText = now, text
		emit(text, true)
	}
}

func (s *splitter) add(b []byte) {
	if s.cut {
		return
	}
	if room := maxLine - len(s.pending); len(b) > room {
		b, s.cut = b[:room], true
	}
	s.pending = append(s.pending, b...)
}

// endLine returns the line that ends here: what is pending, or else the last form of a bar.
func (s *splitter) endLine() string {
	text := s.take()
	if text == "" {
		text = s.form
	}
	s.form = ""
	return text
}

func (s *splitter) take() string {
	text := clean(s.pending)
	if s.cut {
		text += cutMark
	}
	s.pending, s.cut = s.pending[:0], false
	return text
}

// finish emits what the stream ended with.
func (s *splitter) finish(emit func(text string, redraw bool)) {
	if text := s.endLine(); text != "" {
		emit(text, false)
	}
}

// clean makes text safe for a terminal: no escape sequences, no control characters but tab, valid UTF-8, no trailing
// blanks.
func clean(b []byte) string {
	var out strings.Builder
	out.Grow(len(b))
	for len(b) > 0 {
		if n := escapeLen(b); n > 0 {
			b = b[n:]
			continue
		}
		r, n := utf8.DecodeRune(b)
		if r == '\t' || (r >= ' ' && r != 0x7f && (r < 0x80 || r > 0x9f)) {
			out.WriteRune(r)
		}
		b = b[n:]
	}
	return strings.TrimRight(out.String(), " \t")
}

// escapeLen returns the length of the terminal escape sequence that b begins with, 0 if it begins with none.
// CSI sequences (ESC [ parameters final) and string sequences (ESC ] ... BEL or ST) are known; of others two bytes go.
func escapeLen(b []byte) int {
	if len(b) == 0 || b[0] != 0x1b {
		return 0
	}
	if len(b) == 1 {
		return 1
	}
	switch b[1] {
	case '[':
		for i := 2; i < len(b); i++ {
			if b[i] >= 0x40 && b[i] <= 0x7e {
				return i + 1
			}
		}
		return len(b)
	case ']':
		for i := 2; i < len(b); i++ {
			if b[i] == 0x07 {
				return i + 1
			}
			if b[i] == 0x1b && i+1 < len(b) && b[i+1] == '\\' {
				return i + 2
			}
		}
		return len(b)
	}
	return 2
}
