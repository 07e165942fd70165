package scan

import "strings"

// API says which of the engine's interfaces a path belongs to.
type API string

// The APIs; Other is any path that is none of them.
const (
	Chat        API = "chat"
	Completions API = "completions"
	Responses   API = "responses"
	Messages    API = "messages"
	CountTokens API = "count_tokens"
	Embeddings  API = "embeddings"
	Other       API = ""
)

// apiOf names the API of a URL path (without query).
func apiOf(path string) API {
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
	// Oversize: more than 8 MiB or 8,191 turns, so Chain and Root are missing.
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
	IDs              IDs

	// Root hashes the leading system text, the tools and cache_salt; Chain[i]
	// hashes Root and all turns up to i, so that equal values mean equal
	// histories. Ends[i] is the prompt text up to and including turn i, in bytes;
	// RootChars that before the first turn.
	Root      uint64
	Chain     []uint64
	Ends      []int
	RootChars int
	// FirstUser is the first user turn in Chain, -1 when there is none.
	FirstUser int
	// Answered is the first assistant turn in Chain after a user's, -1 when there
	// is none. Raw prompts do not tell who speaks: there it is the first turn.
	Answered int
	// SystemTurns counts system messages after the first turn.
	SystemTurns int
	// Open: the last turn is raw text that a later request may lengthen
	// (completions).
	Open bool
	// Billing hashes Claude Code's billing line, which is no part of Root; 0 when
	// there is none.
	Billing uint64
	// FirstTools are the first 128 tools, in order.
	FirstTools []Tool

	edits  edits
	turns  span   // the value that Chain stands for; empty when there is none
	system []text // the leading system text
}

const (
	// maxContent is the largest body whose content is hashed, in bytes.
	maxContent = 8 << 20
	// maxTurns bounds the memory that a body of empty turns costs; agents stay
	// below a few thousand.
	maxTurns = 1 << 13
	// maxTools is how many tools are kept for a diagnosis.
	maxTools = 128
)

// Tool is a tool definition in hashes. A tool without a name has that of its
// definition.
type Tool struct{ Name, Definition uint32 }

// BesidesTurns returns what is in front of and behind the turns in src, the body
// that b was scanned from; all of src and nil when there are none. Together with
// the last value of Chain it tells two requests of a conversation apart without a
// look at their long common history.
func (b *Body) BesidesTurns(src []byte) (before, behind []byte) {
	if len(b.Chain) == 0 {
		return src, nil
	}
	return src[:b.turns.start], src[b.turns.end:]
}

// SystemText returns the leading system text in src, the body that b was scanned
// from, part by part and decoded, without the billing line. Parts share memory
// with src where they hold no escapes. Of thousands of parts the later ones are
// missing, here as in Root.
func (b *Body) SystemText(src []byte) [][]byte {
	parts := make([][]byte, 0, len(b.system))
	for _, at := range b.system {
		parts = append(parts, decoded(at.of(src)))
	}
	return parts
}
