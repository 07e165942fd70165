package identity

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/lm-warden/warden/router/identity/scan"
)

// outline is what Identity carries for Index besides the hashes: lengths and
// the shape of the prompt's beginning.
type outline struct {
	shape       *shape // nil until Describe
	ends        []int
	rootChars   int
	firstUser   int
	answered    int
	open        bool
	billing     uint64
	systemTurns int
	reasoning   int
}

func outlineOf(b *scan.Body) outline {
	return outline{
		ends: b.Ends, rootChars: b.RootChars, firstUser: b.FirstUser, answered: b.Answered,
		open: b.Open, billing: b.Billing, systemTurns: b.SystemTurns, reasoning: b.Reasoning,
	}
}

// shape describes a root closely enough to say later what changed in it, in
// hashes only. Conversations with one root share one shape, and so it is taken
// only of roots that are new: it costs several times what all else of a request
// does.
type shape struct {
	// unknown: the root was forgotten between the two looks at it, and nobody
	// described it.
	unknown bool

	systemBytes int
	blocks      []uint32 // hash of each systemBlock bytes of the system text
	tools       []scan.Tool

	// Hashes of the system text with parts of it masked.
	noNumbers, noPaths, bare uint64
}

// systemBlock is how closely a change in the system text can be placed, in
// bytes; maxBlocks, and as many tools, bound a shape to about 1.5 KiB.
const (
	systemBlock = 512
	maxBlocks   = 128
)

// Describe notes what the root looks like, for an Index that does not know it.
// src is the body that b was scanned from, and id what Identify made of it.
func (id *Identity) Describe(b *scan.Body, src []byte) {
	if len(b.Chain) == 0 {
		return
	}
	id.outline.shape = describe(b.SystemText(src), b.FirstTools)
}

// describe reads the system text, already decoded, and the tools.
func describe(system [][]byte, tools []scan.Tool) *shape {
	s := &shape{tools: tools}
	var m masks
	for _, text := range system {
		s.systemBytes += len(text)
		m.add(text)
		for len(text) > 0 && len(s.blocks) < maxBlocks {
			n := min(systemBlock, len(text))
			s.blocks = append(s.blocks, uint32(xxhash.Sum64(text[:n])))
			text = text[n:]
		}
	}
	s.noNumbers, s.noPaths, s.bare = m.noNumbers.Sum64(), m.noPaths.Sum64(), m.bare.Sum64()
	return s
}

// masks hash a text without what usually changes in system prompts.
type masks struct{ noNumbers, noPaths, bare xxhash.Digest }

// add masks digits (dates, times, counts), names of days and months, and
// absolute paths.
func (m *masks) add(text []byte) {
	plain := 0 // start of what is not masked
	flush := func(to int) {
		m.noNumbers.Write(text[plain:to])
		m.noPaths.Write(text[plain:to])
		m.bare.Write(text[plain:to])
		plain = to
	}
	for i := 0; i < len(text); {
		b := text[i]
		end := i
		switch {
		case b >= '0' && b <= '9', b >= 'A' && b <= 'Z' && startsWord(text, i):
			if end = dateEnd(text, i); end > i {
				flush(i)
				m.noPaths.Write(text[i:end])
			}
		case (b == '/' || b == '~') && startsPath(text, i):
			if end = pathEnd(text, i); end > i+1 {
				flush(i)
				m.path(text[i:end])
			} else {
				end = i
			}
		}
		if end == i {
			i++
			continue
		}
		i, plain = end, end
	}
	flush(len(text))
}

// path hashes a path: whole, but without digits, where only numbers are masked.
func (m *masks) path(text []byte) {
	for _, piece := range strings.FieldsFunc(string(text), isDigit) {
		m.noNumbers.WriteString(piece)
	}
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

// dateEnd returns where a run of digits, or the name of a day or month, ends;
// i when there is none.
func dateEnd(text []byte, i int) int {
	end := i
	for end < len(text) && isDigit(rune(text[end])) {
		end++
	}
	if end > i {
		return end
	}
	for end < len(text) && isLetter(text[end]) {
		end++
	}
	switch word := string(text[i:end]); word {
	case "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun",
		"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday",
		"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
		"January", "February", "March", "April", "June", "July", "August", "September",
		"October", "November", "December", "AM", "PM":
		return end
	}
	return i
}

func isLetter(b byte) bool { return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' }

func startsWord(text []byte, i int) bool { return i == 0 || !isLetter(text[i-1]) }

// startsPath tells a path from a slash between words.
func startsPath(text []byte, i int) bool {
	return i == 0 || strings.IndexByte(" \t\n\r\"'`(<[=:", text[i-1]) >= 0
}

func pathEnd(text []byte, i int) int {
	for i < len(text) && strings.IndexByte(" \t\n\r\"'`)>]<,;", text[i]) < 0 {
		i++
	}
	return i
}
