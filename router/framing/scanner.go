package framing

import (
	"bytes"
	"errors"
)

// Faults. Their words are not sent to the client.
var (
	ErrBareLF   = errors.New("framing: a line ends without carriage return")
	ErrFolded   = errors.New("framing: a header line is folded")
	ErrLength   = errors.New("framing: Content-Length is repeated or not a plain number")
	ErrEncoding = errors.New("framing: Transfer-Encoding is not exactly chunked")
	ErrBoth     = errors.New("framing: both Content-Length and Transfer-Encoding")
	ErrChunk    = errors.New("framing: a chunk is not written as SIZE CRLF DATA CRLF")
	ErrTrailer  = errors.New("framing: trailers")
)

// Scanner follows the requests of one connection. The zero value is at the
// beginning of a request.
type Scanner struct {
	at   state
	left uint64 // bytes of a body or chunk that are still to come
	line line
	head head
	// bad stays: after a fault nobody knows where a request begins.
	bad error
}

type state uint8

const (
	inHead state = iota
	inBody
	inChunkSize
	inChunk
	inChunkEnd // the CRLF behind a chunk's data
	inTrailer  // the empty line behind the last chunk
)

// Next reads on, and says what is wrong.
func (s *Scanner) Next(p []byte) error {
	for len(p) > 0 && s.bad == nil {
		if s.at == inBody || s.at == inChunk {
			n := min(s.left, uint64(len(p)))
			s.left -= n
			p = p[n:]
			if s.left == 0 {
				s.behindData()
			}
			continue
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			s.line.add(p)
			return nil
		}
		s.line.add(p[:end])
		p = p[end+1:]
		s.bad = s.endLine()
	}
	return s.bad
}

func (s *Scanner) behindData() {
	if s.at == inChunk {
		s.at = inChunkEnd
		return
	}
	s.at = inHead
}

// endLine judges the line that has just ended.
func (s *Scanner) endLine() error {
	text, ok := s.line.end()
	if !ok {
		return ErrBareLF
	}
	switch s.at {
	case inChunkEnd:
		if len(text) != 0 || s.line.long() {
			return ErrChunk
		}
		s.at = inChunkSize
	case inChunkSize:
		return s.chunk(text)
	case inTrailer:
		if len(text) != 0 {
			return ErrTrailer
		}
		s.at = inHead
	default:
		return s.headLine(text)
	}
	s.line.reset()
	return nil
}

func (s *Scanner) headLine(text []byte) error {
	done, err := s.head.add(text, s.line.long())
	s.line.reset()
	if err != nil || !done {
		return err
	}
	switch {
	case s.head.chunked:
		s.at = inChunkSize
	case s.head.length > 0:
		s.at, s.left = inBody, s.head.length
	}
	s.head = head{}
	return nil
}

// chunk reads a chunk's size.
func (s *Scanner) chunk(text []byte) error {
	size, ok := hex(text)
	if !ok || s.line.long() {
		return ErrChunk
	}
	s.line.reset()
	s.at, s.left = inChunk, size
	if size == 0 {
		s.at = inTrailer
	}
	return nil
}

// hex reads a size that fits 56 bits, so that sums of it do not overflow.
func hex(text []byte) (n uint64, ok bool) {
	if len(text) == 0 || len(text) > 14 {
		return 0, false
	}
	for _, c := range text {
		var digit byte
		switch {
		case c >= '0' && c <= '9':
			digit = c - '0'
		case c >= 'a' && c <= 'f':
			digit = c - 'a' + 10
		case c >= 'A' && c <= 'F':
			digit = c - 'A' + 10
		default:
			return 0, false
		}
		n = n<<4 | uint64(digit)
	}
	return n, true
}

// line keeps the beginning of a line; what matters here is short, and the
// longest path on the list of routes with its query fits.
type line struct {
	start [256]byte
	n     int // its length so far, also beyond start
	last  byte
}

func (l *line) add(p []byte) {
	if len(p) == 0 {
		return
	}
	if l.n < len(l.start) {
		copy(l.start[l.n:], p)
	}
	l.n += len(p)
	l.last = p[len(p)-1]
}

// end returns the kept part of a whole line without its carriage return, and
// false when it has none.
func (l *line) end() ([]byte, bool) {
	if l.n == 0 || l.last != '\r' {
		return nil, false
	}
	return l.start[:min(l.n-1, len(l.start))], true
}

func (l *line) reset() { l.n, l.last = 0, 0 }

// long says whether end returned a part only.
func (l *line) long() bool { return l.n-1 > len(l.start) }
