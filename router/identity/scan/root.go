package scan

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// billingPrefix begins a system block that Claude Code adds for its vendor's
// accounting. It differs between conversations, and in some versions between
// requests; vLLM drops it (vllm-project/vllm#36829), and so do we.
const billingPrefix = "x-anthropic-billing-header:"

// tools are the tool definitions, in hashes.
type tools struct {
	count int
	sum   uint64 // of all definitions in order
	first []Tool // the first maxTools
}

// tool consumes one tool definition. Its top-level members count in any order
// and without cache_control, which clients move; the schema below counts as
// written, which is several times cheaper and stable in every client seen.
func (s *scanner) tool(walk *memoWalk) {
	start := s.valueAt()
	var name, definition uint64
	if t := walk.known(s.src[start:]); t != nil {
		s.pos += t.length
		name, definition = t.name, t.sum
	} else {
		object := s.next() == '{'
		definition = s.toolMembers(&name, 2)
		walk.keep(s.src[start:s.pos], facts{sum: definition, name: name}, object && !s.bad)
	}
	s.toolChars += s.pos - start
	s.tools.count++
	s.tools.sum = Fold(s.tools.sum, definition)
	if name == 0 { // the engine's own tools have only a type
		name = definition
	}
	if s.tools.first == nil {
		s.tools.first = make([]Tool, 0, 16)
	}
	if len(s.tools.first) < maxTools {
		s.tools.first = append(s.tools.first, Tool{uint32(name), uint32(definition)})
	}
}

func (s *scanner) toolMembers(toolName *uint64, depth int) uint64 {
	if s.next() != '{' {
		return xxhash.Sum64(s.skip().of(s.src))
	}
	var sum uint64
	s.members(func(key []byte) {
		name := xxhash.Sum64(key)
		switch k := string(key); {
		case k == "cache_control":
			s.skip()
			return
		case k == "name" && s.next() == '"':
			*toolName, _ = s.hashText(s.quoted())
			sum += Fold(name, *toolName)
			return
		case k == "function" && depth > 1:
			sum += Fold(name, s.toolMembers(toolName, depth-1))
			return
		}
		sum += Fold(name, xxhash.Sum64(s.skip().of(s.src)))
	})
	return sum
}

// systemText returns where the leading system text is, part by part, without
// the billing line, whose hash it returns apart (0: none).
func (s *scanner) systemText() (parts []text, billing uint64) {
	all := append(s.system, s.leading...)
	parts = all[:0]
	for _, at := range all {
		text := at.of(s.src)
		if bytes.HasPrefix(text, []byte(billingPrefix)) {
			line, _, more := bytes.Cut(text, []byte(`\n`))
			billing = xxhash.Sum64(line)
			at.start += len(line)
			if more {
				at.start += len(`\n`)
			}
			rest := at.of(s.src)
			at.sum, _ = s.hashText(quoted{raw: rest, variants: bytes.Contains(rest, []byte(`\u`))})
		}
		if at.start < at.end {
			parts = append(parts, at)
		}
	}
	return parts, billing
}

// root is the hash of what a chat template renders before the first turn.
func (s *scanner) root(system []text) uint64 {
	sum := tagRoot
	for _, at := range system {
		sum = Fold(sum, at.sum)
	}
	sum = Fold(sum, uint64(len(system)))
	sum = Fold(sum, s.tools.sum)
	if s.salt != 0 {
		sum = Fold(sum, Fold(tagSalt, s.salt))
	}
	return sum
}
