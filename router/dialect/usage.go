package dialect

import (
	"bytes"
	"strings"

	"github.com/tidwall/gjson"
)

// Finish classes: why the model stopped, in the words of no particular API.
const (
	FinishStop      = "stop"       // the turn is over; the next comes on human time
	FinishToolCalls = "tool_calls" // the client runs tools and comes back at once
	FinishLength    = "length"     // cut at max_tokens or at the context's end
)

// Usage is what the engine measured. Before an answer says anything, and when
// the engine does not measure a field, it is -1.
type Usage struct {
	PromptTokens int // all prompt tokens, cached ones included
	CachedTokens int // of those, taken from the prefix cache
	OutputTokens int
}

var unmeasured = Usage{-1, -1, -1}

// Summary is what an answer says about itself.
type Summary struct {
	Usage
	Finish string // one of the finish classes, or "" when unknown
	// Of /v1/responses: what a later request may build on.
	ResponseID, ConversationID string
	Content                    bool // a token with content has been seen
	Ended                      bool // the API's own end marker or error has been seen
	Failed                     bool // the engine reported an error inside the stream
	EngineDead                 bool // ... and it was that the engine is gone
}

// ReadAnswer summarises a whole, unstreamed answer with status 200.
func (a API) ReadAnswer(body []byte) Summary {
	s := Summary{Usage: unmeasured}
	if !a.Generates() || !gjson.ValidBytes(body) {
		return s
	}
	s.Ended = true
	doc := gjson.ParseBytes(body)
	switch a {
	case Messages:
		s.anthropicUsage(doc.Get("usage"))
		s.Finish = finishClass(doc.Get("stop_reason").Str)
		s.Content = doc.Get("content.0").Exists()
	case Responses:
		s.response(doc)
		s.Content = doc.Get("output.0").Exists()
	default:
		s.openAIUsage(doc.Get("usage"))
		s.Finish = finishClass(doc.Get("choices.0.finish_reason").Str)
		s.Content = true
	}
	return s
}

func (s *Summary) openAIUsage(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	// Intermediate usage (continuous_usage_stats) lacks the details that only
	// the last chunk has: keep what is known.
	set(&s.PromptTokens, u.Get("prompt_tokens"))
	set(&s.OutputTokens, u.Get("completion_tokens"))
	set(&s.CachedTokens, u.Get("prompt_tokens_details.cached_tokens"))
}

// anthropicUsage: input_tokens excludes what was read from and written to the
// cache. The first event of a stream has no cache fields and the full count,
// the last has all three; output_tokens is cumulative.
func (s *Summary) anthropicUsage(u gjson.Result) {
	if !u.IsObject() {
		return
	}
	if input := u.Get("input_tokens"); input.Type == gjson.Number {
		read, created := -1, 0
		set(&read, u.Get("cache_read_input_tokens"))
		set(&created, u.Get("cache_creation_input_tokens"))
		s.PromptTokens = clamp(input.Int()) + max(read, 0) + created
		if read >= 0 {
			s.CachedTokens = read
		}
	}
	set(&s.OutputTokens, u.Get("output_tokens"))
}

func (s *Summary) response(r gjson.Result) {
	if id := r.Get("id"); id.Type == gjson.String {
		s.ResponseID = id.Str
	}
	if id := r.Get("conversation.id"); id.Type == gjson.String {
		s.ConversationID = id.Str
	}
	if u := r.Get("usage"); u.IsObject() {
		set(&s.PromptTokens, u.Get("input_tokens"))
		set(&s.OutputTokens, u.Get("output_tokens"))
		set(&s.CachedTokens, u.Get("input_tokens_details.cached_tokens"))
	}
	switch r.Get("status").Str {
	case "completed":
		s.Finish = FinishStop
		if r.Get(`output.#(type=="function_call")`).Exists() {
			s.Finish = FinishToolCalls
		}
	case "incomplete":
		s.Finish = FinishLength
	}
}

// fail notes an error that the engine reported in a stream.
func (s *Summary) fail(data []byte) {
	s.Failed = true
	s.EngineDead = s.EngineDead || EngineDead(data)
}

func finishClass(reason string) string {
	switch reason {
	case "stop", "end_turn", "stop_sequence":
		return FinishStop
	case "tool_calls", "function_call", "tool_use":
		return FinishToolCalls
	case "length", "max_tokens":
		return FinishLength
	}
	return ""
}

func set(field *int, v gjson.Result) {
	if v.Type == gjson.Number {
		*field = clamp(v.Int())
	}
}

// clamp keeps nonsense out of the sums that these numbers enter.
func clamp(n int64) int { return int(min(max(n, 0), 1<<40)) }

// observe reads the data of one event of a stream, and returns the words that it
// has looked for.
func (s *Summary) observe(api API, data []byte) (has words) {
	if string(data) == "[DONE]" {
		s.Ended = true
		return has
	}
	switch api {
	case Messages:
		s.observeMessages(data)
	case Responses:
		s.observeResponses(data)
	default:
		has = wordsOf(data)
		s.observeChoices(data, has)
	}
	return has
}

// observeChoices is on the path of every token: it looks for words before it
// parses.
func (s *Summary) observeChoices(data []byte, has words) {
	if has.err && gjson.GetBytes(data, "error").IsObject() {
		s.fail(data)
		return
	}
	if has.usage {
		s.openAIUsage(gjson.GetBytes(data, "usage"))
	}
	if !s.Content {
		s.Content = hasContent(gjson.GetBytes(data, "choices.0"))
	}
	if has.reasons > has.nulls {
		if reason := gjson.GetBytes(data, "choices.0.finish_reason"); reason.Type == gjson.String {
			s.Finish = finishClass(reason.Str)
		}
	}
}

// words are what a chunk of OpenAI's must hold to be worth parsing. Inside a JSON
// string a quote is escaped, so that `"usage"` with both quotes can only be a key
// (or a value that is exactly that word).
type words struct {
	err, usage     bool
	reasons, nulls int // "finish_reason", and those of them that are null
}

// wordsOf finds them in one pass from quote to quote.
func wordsOf(data []byte) (w words) {
	for {
		n := bytes.IndexByte(data, '"')
		if n < 0 || n == len(data)-1 {
			return w
		}
		data = data[n+1:]
		switch data[0] {
		case 'e':
			w.err = w.err || bytes.HasPrefix(data, []byte(`error"`))
		case 'u':
			w.usage = w.usage || bytes.HasPrefix(data, []byte(`usage"`))
		case 'f':
			if value, ok := bytes.CutPrefix(data, []byte(`finish_reason"`)); ok {
				w.reasons++
				if bytes.HasPrefix(value, []byte(":null")) {
					w.nulls++
				}
			}
		}
	}
}

func hasContent(choice gjson.Result) bool {
	if choice.Get("text").Str != "" {
		return true
	}
	delta := choice.Get("delta")
	return delta.Get("content").Str != "" || delta.Get("reasoning").Str != "" ||
		delta.Get("reasoning_content").Str != "" || delta.Get("tool_calls.0").Exists()
}

func (s *Summary) observeMessages(data []byte) {
	switch gjson.GetBytes(data, "type").Str {
	case "message_start":
		s.anthropicUsage(gjson.GetBytes(data, "message.usage"))
	case "content_block_delta":
		s.Content = true
	case "message_delta":
		s.anthropicUsage(gjson.GetBytes(data, "usage"))
		s.Finish = finishClass(gjson.GetBytes(data, "delta.stop_reason").Str)
	case "message_stop":
		s.Ended = true
	case "error":
		s.Ended = true
		s.fail(data)
	}
}

func (s *Summary) observeResponses(data []byte) {
	kind := gjson.GetBytes(data, "type").Str
	switch kind {
	case "response.created", "response.in_progress":
		if id := gjson.GetBytes(data, "response.id"); id.Type == gjson.String {
			s.ResponseID = id.Str
		}
	case "response.completed", "response.incomplete":
		s.Ended = true
		s.response(gjson.GetBytes(data, "response"))
	case "response.failed", "error":
		s.Ended = true
		s.fail(data)
	case "":
		// vLLM writes some of its errors here without a type.
		if gjson.GetBytes(data, "error").IsObject() {
			s.Ended = true
			s.fail(data)
		}
	default:
		if strings.HasSuffix(kind, ".delta") {
			s.Content = true
		}
	}
}
