package identity

import "strings"

// Bodies beyond these limits keep their fields but are recognised by id only.
const (
	// MaxContent is the largest body whose content is hashed, in bytes.
	MaxContent = 8 << 20
	// MaxTurns bounds the memory that a body of empty turns costs; agents stay
	// below a few thousand.
	MaxTurns = 1 << 13
)

// API says which of the engine's interfaces a path belongs to.
type API string

const (
	Chat        API = "chat"
	Completions API = "completions"
	Responses   API = "responses"
	Messages    API = "messages"
	CountTokens API = "count_tokens"
	Embeddings  API = "embeddings"
	Other       API = ""
)

// APIOf names the API of a URL path (without query).
func APIOf(path string) API {
	path = strings.TrimSuffix(path, "/")
	switch {
	case path == "/v1/responses" || strings.HasPrefix(path, "/v1/responses/"):
		return Responses
	case path == "/v1/chat/completions":
		return Chat
	case path == "/v1/completions":
		return Completions
	case path == "/v1/messages":
		return Messages
	case path == "/v1/messages/count_tokens":
		return CountTokens
	case path == "/v1/embeddings":
		return Embeddings
	}
	return Other
}

// Body is what one pass over a request body found. Of members given twice the
// last one counts, as it does for the engine.
type Body struct {
	API API
	// Valid: the body is one JSON object. Values of no interest here are only
	// matched bracket by bracket; the engine judges them.
	Valid bool
	// Oversize: beyond MaxContent or MaxTurns, so Chain and Root are missing.
	Oversize bool

	Model        string
	Stream       bool
	IncludeUsage bool // stream_options.include_usage
	MaxTokens    int  // max_completion_tokens, max_tokens or max_output_tokens; 0 not given
	N            int  // answers asked for, at least 1

	Chars     int // prompt text in UTF-8 bytes (about 4 per token), images excluded
	Images    int // image parts
	Tools     int // tool definitions
	Reasoning int // reasoning parts resent with the history

	PreviousResponse string // previous_response_id, as sent
	Conversation     string // conversation or conversation.id, as sent

	// Root hashes the leading system text and the tools; Chain[i] hashes Root
	// and all turns up to i, so that equal values mean equal histories. Ends[i]
	// is the prompt text up to and including turn i, in bytes.
	Root  uint64
	Chain []uint64
	Ends  []int
	// FirstUser is the first user turn in Chain, -1 when there is none.
	FirstUser int
	// SystemTurns counts system messages after the first turn.
	SystemTurns int
	// Open: the last turn is raw text that a later request may lengthen
	// (completions).
	Open bool

	ids       bodyIDs
	edits     edits
	turns     span   // the value that Chain stands for; empty when there is none
	system    []text // the leading system text, for Describe
	tools     []tool // for Describe
	billing   uint64 // hash of Claude Code's billing line, 0 when there is none
	rootChars int    // prompt text before the first turn, in bytes
	// answered is the first assistant turn in Chain after a user's, -1 when there
	// is none. Raw prompts do not tell who speaks: there it is the first turn.
	answered int
}

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

// Scan reads a request body once. It never panics, never recurses beyond a
// fixed depth and keeps no reference to body. A body that is no JSON object
// yields a Body that is not Valid and otherwise empty.
func Scan(path string, body []byte) *Body { return scan(nil, path, body) }

func scan(memo *Memo, path string, body []byte) *Body {
	empty := Body{API: APIOf(path), N: 1, FirstUser: -1, answered: -1, Oversize: len(body) > MaxContent}
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
	for _, v := range s.maxTokens {
		if v > 0 {
			b.MaxTokens = v
			break
		}
	}
	s.finish()
	return &b
}

// member consumes the value of one top-level member.
func (s *scanner) member(key []byte) {
	b := s.body
	switch string(key) {
	case "model":
		s.next()
		start := s.pos
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

func (s *scanner) streamOptions() {
	e := &s.body.edits
	s.next()
	start := s.pos
	e.includeUsage = span{}
	s.body.IncludeUsage = false
	e.streamOptions = s.members(func(key []byte) {
		if string(key) != "include_usage" {
			s.skip()
			return
		}
		s.next()
		at := s.pos
		s.body.IncludeUsage = s.boolean()
		e.includeUsage = span{at, s.pos}
	})
	e.streamOptions.start = start
}

func (s *scanner) conversation() (id string) {
	if s.next() != '{' {
		return string(s.optionalText())
	}
	s.members(func(key []byte) {
		if string(key) == "id" {
			id = string(s.optionalText())
			return
		}
		s.skip()
	})
	return id
}

// finish builds root and chain from the hashes of the single turns, once all
// members are known: clients put tools after messages.
func (s *scanner) finish() {
	b := s.body
	b.Chars = s.systemChars + s.leadingChars + s.toolChars + s.otherChars
	if len(b.Chain) >= MaxTurns {
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
	b.billing = billing
	b.Root = s.root(system)
	b.system, b.tools, b.rootChars = system, s.tools.first, b.Chars
	sum := b.Root
	for i, hash := range b.Chain {
		sum = fold(sum, hash)
		b.Chars += b.Ends[i]
		b.Chain[i], b.Ends[i] = sum, b.Chars
	}
}
