package scan

import "github.com/cespare/xxhash/v2"

// promptBlock is the length in bytes of one turn of a raw prompt. Raw prompts
// have no turns, but a client that continues one resends it longer.
const promptBlock = 1 << 10

// messages consumes the turns of a conversation: messages of the chat and
// Messages APIs, input of the Responses API (a string is one user turn).
func (s *scanner) messages() {
	s.forgetTurns()
	s.leading, s.leadingChars = s.leading[:0], 0
	s.body.SystemTurns, s.body.edits.systemTurns = 0, nil
	s.body.Images, s.body.Reasoning = 0, 0
	defer s.turnsUntilNow(s.valueAt())
	if s.next() == '"' {
		sum, size := s.hashText(s.quoted())
		s.add(Fold(xxhash.Sum64String("user"), sum), size, roleUser)
		return
	}
	walk := memoWalk{memo: s.memo}
	s.elements(func() {
		start := s.valueAt()
		if t := walk.known(s.src[start:]); t != nil {
			s.pos += t.length
			s.body.Reasoning += t.reasoning
			s.body.Images += t.images
			if t.counts {
				s.add(t.sum, t.size, t.by)
			}
			return
		}
		f, whole := s.message()
		walk.keep(s.src[start:s.pos], f, whole)
	})
}

// message consumes one turn; whole is false where f does not say all of it: of
// system text it matters where it lies.
func (s *scanner) message() (f facts, whole bool) {
	s.texts = s.texts[:0]
	reasoning, images := s.body.Reasoning, s.body.Images
	object := s.next() == '{'
	var n node
	n.read(s, messageDepth)
	sum, ok := n.hash()
	by := n.by()
	switch {
	case !ok: // a reasoning item
		if n.kind == kindReasoning {
			s.body.Reasoning++
		}
	case by == roleSystem && len(s.body.Chain) == 0:
		s.leading = append(s.leading, s.texts...)
		s.leadingChars += n.size
	default:
		if by == roleSystem {
			s.body.SystemTurns++
			s.systemTurn(n)
		}
		s.add(sum, n.size, by)
	}
	f = facts{sum: sum, counts: ok, by: by, size: n.size,
		reasoning: s.body.Reasoning - reasoning, images: s.body.Images - images}
	return f, object && !s.bad && by != roleSystem
}

// add appends a turn: its hash to Chain and its size to Ends, which finish turns
// into what they are to be. Those beyond maxTurns count as text only.
func (s *scanner) add(hash uint64, size int, by role) {
	b := s.body
	i := len(b.Chain)
	switch {
	case i >= maxTurns:
		s.otherChars += size
		return
	case b.Chain == nil:
		room := min(len(s.src)/turnBytes+1, maxRoom)
		b.Chain, b.Ends = make([]uint64, 0, room), make([]int, 0, room)
	}
	b.Chain, b.Ends = append(b.Chain, hash), append(b.Ends, size)
	if by == roleUser && b.FirstUser < 0 {
		b.FirstUser = i
	}
	if b.FirstUser >= 0 && b.Answered < 0 && (by == roleAssistant || b.API == Completions) {
		b.Answered = i
	}
}

// A first guess of the number of turns: agents' are rarely shorter than this many
// bytes. More grow from maxRoom on.
const (
	turnBytes = 512
	maxRoom   = 256
)

func (s *scanner) forgetTurns() {
	b := s.body
	b.Chain, b.Ends = b.Chain[:0], b.Ends[:0]
	b.FirstUser, b.Answered = -1, -1
}

func (s *scanner) turnsUntilNow(start int) { s.body.turns = span{start, s.pos} }

// systemTurn remembers where FoldSystemTurns has to write.
func (s *scanner) systemTurn(n node) {
	if len(s.texts) == 0 || n.roleAt.empty() || len(s.body.edits.systemTurns) == maxTurns {
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
	s.forgetTurns()
	s.body.Open = false
	defer s.turnsUntilNow(s.valueAt())
	switch s.next() {
	case '"':
		s.promptText()
		s.body.Open = true
	case '[':
		s.elements(func() {
			if s.next() == '"' {
				sum, size := s.hashText(s.quoted())
				s.add(sum, size, roleUser)
				return
			}
			s.promptTokens()
		})
	default:
		s.skip()
	}
}

func (s *scanner) promptText() {
	raw := s.quoted().raw
	for first := true; first || len(raw) > 0; first = false {
		s.buffer, raw = unescapePart(s.buffer[:0], raw, promptBlock)
		s.add(xxhash.Sum64(s.buffer), len(s.buffer), roleUser)
	}
}

// promptTokens consumes one token id, or one list of them. A flat list of ids
// is one turn.
func (s *scanner) promptTokens() {
	nested := s.next() == '['
	count, sum := 0, tagArray
	if nested {
		s.elements(func() { sum, count = Fold(sum, xxhash.Sum64(s.skip().of(s.src))), count+1 })
		s.add(sum, 4*count, roleUser)
		return
	}
	b := s.body
	if len(b.Chain) == 0 {
		s.add(tagArray, 0, roleUser)
	}
	last := len(b.Chain) - 1
	b.Chain[last] = Fold(b.Chain[last], xxhash.Sum64(s.skip().of(s.src)))
	b.Ends[last] += 4
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
