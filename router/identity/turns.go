package identity

import "github.com/cespare/xxhash/v2"

// promptBlock is the length in bytes of one turn of a raw prompt. Raw prompts
// have no turns, but a client that continues one resends it longer.
const promptBlock = 1 << 10

// messages consumes the turns of a conversation: messages of the chat and
// Messages APIs, input of the Responses API (a string is one user turn).
func (s *scanner) messages() {
	s.turns, s.leading, s.leadingChars = s.turns[:0], s.leading[:0], 0
	s.body.SystemTurns, s.body.edits.systemTurns = 0, nil
	s.body.Images, s.body.Reasoning = 0, 0
	if s.next() == '"' {
		sum, size := s.hashText(s.str())
		s.add(turn{fold(xxhash.Sum64String("user"), sum), size, roleUser})
		return
	}
	s.elements(func() {
		s.texts = s.texts[:0]
		n := s.node(messageDepth)
		sum, ok := n.hash()
		switch {
		case !ok: // a reasoning item
			if n.kind == kindReasoning {
				s.body.Reasoning++
			}
		case n.by() == roleSystem && len(s.turns) == 0:
			s.leading = append(s.leading, s.texts...)
			s.leadingChars += n.size
		default:
			if n.by() == roleSystem {
				s.body.SystemTurns++
				s.systemTurn(n)
			}
			s.add(turn{sum, n.size, n.by()})
		}
	})
}

// add appends a turn. Those beyond MaxTurns count as text only.
func (s *scanner) add(t turn) {
	if len(s.turns) < MaxTurns {
		s.turns = append(s.turns, t)
		return
	}
	s.otherChars += t.size
}

// systemTurn remembers where FoldSystemTurns has to write.
func (s *scanner) systemTurn(n node) {
	if len(s.texts) == 0 || n.roleAt.empty() || len(s.body.edits.systemTurns) == MaxTurns {
		return
	}
	s.body.edits.systemTurns = append(s.body.edits.systemTurns, systemTurn{
		role:  n.roleAt,
		open:  s.texts[0].start,
		close: s.texts[len(s.texts)-1].end,
	})
}

// prompt consumes the prompt of the completions API: a string, a list of
// strings, or token ids, which are counted as four bytes each.
func (s *scanner) prompt() {
	s.turns, s.body.Open = s.turns[:0], false
	switch s.next() {
	case '"':
		s.promptText()
		s.body.Open = true
	case '[':
		s.elements(func() {
			if s.next() == '"' {
				sum, size := s.hashText(s.str())
				s.add(turn{sum, size, roleUser})
				return
			}
			s.promptTokens()
		})
	default:
		s.skip()
	}
}

func (s *scanner) promptText() {
	raw := s.str()
	for first := true; first || len(raw) > 0; first = false {
		s.buffer, raw = unescapePart(s.buffer[:0], raw, promptBlock)
		s.add(turn{xxhash.Sum64(s.buffer), len(s.buffer), roleUser})
	}
}

// promptTokens consumes one token id, or one list of them. A flat list of ids
// is one turn.
func (s *scanner) promptTokens() {
	nested := s.next() == '['
	count, sum := 0, tagArray
	if nested {
		s.elements(func() { sum, count = fold(sum, xxhash.Sum64(s.skip().of(s.src))), count+1 })
		s.add(turn{sum, 4 * count, roleUser})
		return
	}
	if len(s.turns) == 0 {
		s.turns = append(s.turns, turn{tagArray, 0, roleUser})
	}
	last := &s.turns[len(s.turns)-1]
	last.hash = fold(last.hash, xxhash.Sum64(s.skip().of(s.src)))
	last.size += 4
}

// countText consumes the input of an embeddings request and counts its text.
func (s *scanner) countText() {
	one := func() {
		_, size, _ := s.scalar()
		s.otherChars += size
	}
	s.otherChars = 0
	if s.next() == '[' {
		s.elements(one)
		return
	}
	one()
}
