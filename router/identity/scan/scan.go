package scan

import "cmp"

// scanner is the state of one pass.
type scanner struct {
	cursor
	hasher
	body    *Body
	memo    *Memo
	hashing bool // false for oversize bodies

	texts   []text // prompt strings of the message being read
	system  []text // of system or instructions
	leading []text // of system messages before the first turn
	tools   tools
	salt    uint64

	maxTokens [3]int // by precedence

	// Prompt text in bytes, per member, since a member may be given twice.
	systemChars, leadingChars, toolChars, otherChars int
}

// Scan reads the body of a request to a URL path (without query) once. It never panics, never recurses beyond a
// fixed depth and keeps no reference to body. A body that is no JSON object
// yields a Body that is not Valid and otherwise empty.
func Scan(path string, body []byte) *Body { return scan(nil, path, body) }

func scan(memo *Memo, path string, body []byte) *Body {
	empty := Body{API: apiOf(path), N: 1, FirstUser: -1, Answered: -1, Oversize: len(body) > maxContent}
	b := empty
	s := scanner{cursor: cursor{src: body}, hashing: !b.Oversize, body: &b, memo: memo}
	if s.next() == '{' {
		b.edits.open = s.pos
		b.Valid = !s.members(s.member).empty()
	}
	if !b.Valid || s.bad || s.next() != 0 || s.pos != len(body) {
		b = empty
		return &b
	}
	b.MaxTokens = cmp.Or(s.maxTokens[0], s.maxTokens[1], s.maxTokens[2])
	s.finish()
	return &b
}

// member consumes the value of one top-level member.
func (s *scanner) member(key []byte) {
	b := s.body
	switch string(key) {
	case "model":
		start := s.valueAt()
		b.Model = string(s.optionalText())
		b.edits.model = span{start, s.pos}
	case "stream":
		b.Stream = s.boolean()
	case "stream_options":
		s.streamOptions()
	case "max_completion_tokens":
		s.maxTokens[0] = s.integer()
	case "max_tokens":
		s.maxTokens[1] = s.integer()
	case "max_output_tokens":
		s.maxTokens[2] = s.integer()
	case "n":
		b.N = max(1, s.integer())
	case "previous_response_id":
		b.PreviousResponse = string(s.optionalText())
	case "conversation":
		b.Conversation = s.conversation()
	case "metadata", "client_metadata", "session_params", "prompt_cache_key",
		"session_id", "sessionId", "conversation_id", "thread_id", "litellm_session_id":
		s.idMember(string(key))
	default:
		s.contentMember(key)
	}
}

// contentMember consumes the members that the model reads.
func (s *scanner) contentMember(key []byte) {
	name := string(key)
	if name == "tools" || name == "functions" {
		s.tools, s.toolChars = tools{}, 0
		walk := memoWalk{memo: s.memo, before: tagTools}
		s.elements(func() { s.tool(&walk) })
		s.body.Tools = s.tools.count
		return
	}
	if !s.hashing {
		s.skip()
		return
	}
	api := s.body.API
	switch {
	case name == "system" && (api == Messages || api == CountTokens), name == "instructions" && api == Responses:
		s.texts = s.texts[:0]
		_, s.systemChars, _ = s.content(messageDepth)
		s.system = append(s.system[:0], s.texts...)
	case name == "messages" && api != Completions, name == "input" && api == Responses:
		s.messages()
	case name == "input" && api == Embeddings:
		s.countText()
	case name == "prompt" && (api == Completions || api == Other):
		s.prompt()
	case name == "cache_salt":
		s.salt, _, _ = s.scalar()
	default:
		s.skip()
	}
}

// streamOptions consumes the member and remembers where to turn usage on.
func (s *scanner) streamOptions() {
	e := &s.body.edits
	start := s.valueAt()
	e.includeUsage = span{}
	s.body.IncludeUsage = false
	e.streamOptions = s.members(func(key []byte) {
		if string(key) != "include_usage" {
			s.skip()
			return
		}
		at := s.valueAt()
		s.body.IncludeUsage = s.boolean()
		e.includeUsage = span{at, s.pos}
	})
	e.streamOptions.start = start
}

// conversation consumes the member of that name: an id, or an object with one.
func (s *scanner) conversation() string {
	if s.next() == '{' {
		return s.textMember("id")
	}
	return string(s.optionalText())
}

// finish builds root and chain from the hashes of the single turns, once all
// members are known: clients put tools after messages.
func (s *scanner) finish() {
	b := s.body
	b.Chars = s.systemChars + s.leadingChars + s.toolChars + s.otherChars
	if len(b.Chain) >= maxTurns {
		b.Oversize = true
		for _, size := range b.Ends {
			b.Chars += size
		}
	}
	if b.Oversize {
		s.forgetTurns()
		b.Chain, b.Ends = nil, nil
		return
	}
	system, billing := s.systemText()
	b.Billing = billing
	b.Root = s.root(system)
	b.system, b.FirstTools, b.RootChars = system, s.tools.first, b.Chars
	sum := b.Root
	for i, hash := range b.Chain {
		sum = Fold(sum, hash)
		b.Chars += b.Ends[i]
		b.Chain[i], b.Ends[i] = sum, b.Chars
	}
}
