package load

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"
)

// APIs that can be spoken.
const (
	Chat        = "chat"        // OpenAI chat completions
	Completions = "completions" // OpenAI completions: the conversation as one text
	Messages    = "messages"    // Anthropic
	Responses   = "responses"   // OpenAI
)

// APIs are all of them.
var APIs = []string{Chat, Completions, Messages, Responses}

// body is the conversation as its API wants it.
func (s *session) body() (path string, body []byte) {
	request := map[string]any{"model": s.o.Model, "stream": true}
	if s.o.IgnoreEOS {
		request["ignore_eos"] = true
	}
	limit := "max_tokens"
	switch s.o.API {
	case Messages:
		path = "/v1/messages"
		request["messages"] = s.history
		if s.system != "" {
			request["system"] = s.system
		}
	case Responses:
		path, limit = "/v1/responses", "max_output_tokens"
		request["input"] = s.history
		if s.system != "" {
			request["instructions"] = s.system
		}
	case Completions:
		path = "/v1/completions"
		request["prompt"] = s.text()
		request["stream_options"] = map[string]bool{"include_usage": true}
	default:
		path = "/v1/chat/completions"
		request["messages"] = s.history
		if s.system != "" {
			request["messages"] = append([]message{{"system", s.system}}, s.history...)
		}
		request["stream_options"] = map[string]bool{"include_usage": true}
	}
	request[limit] = s.o.Shape.MaxOutput
	body, err := json.Marshal(request)
	if err != nil {
		panic("load: a map of strings and numbers always marshals: " + err.Error())
	}
	return path, body
}

// text is the whole conversation: the next one begins with it.
func (s *session) text() string {
	var b strings.Builder
	b.WriteString(s.system)
	for _, m := range s.history {
		b.WriteString(m.Content)
	}
	return b.String()
}

// piece is what one event of a stream brings, of whichever API.
type piece struct {
	text  string
	ended bool // the answer is whole
	err   error
}

func pieceOf(event gjson.Result) piece {
	for _, path := range []string{"error", "response.error"} {
		if e := event.Get(path); e.Exists() && e.Type != gjson.Null {
			return piece{err: errors.New("in the stream: " + e.Get("message").String())}
		}
	}
	switch event.Get("type").String() {
	case "message_stop", "response.completed", "response.incomplete": // incomplete: as long as was asked for
		return piece{ended: true}
	case "response.failed":
		return piece{err: errors.New("in the stream: the response failed")}
	case "response.output_text.delta":
		return piece{text: event.Get("delta").String()}
	}
	return piece{text: event.Get("choices.0.delta.content").String() + event.Get("choices.0.text").String() + event.Get("delta.text").String()}
}

// readUsage takes over what an event says of the numbers of tokens.
func (t *Turn) readUsage(event gjson.Result) {
	if u := event.Get("response.usage"); u.IsObject() {
		t.PromptTokens, t.OutputTokens = int(u.Get("input_tokens").Int()), int(u.Get("output_tokens").Int())
		if v := u.Get("input_tokens_details.cached_tokens"); v.Exists() {
			t.CachedTokens = int(v.Int())
		}
		return
	}
	u := event.Get("usage")
	if !u.IsObject() {
		return
	}
	if v := u.Get("prompt_tokens"); v.Exists() { // OpenAI: the whole prompt
		t.PromptTokens = int(v.Int())
	}
	if v := u.Get("prompt_tokens_details.cached_tokens"); v.Exists() {
		t.CachedTokens = int(v.Int())
	}
	for _, name := range []string{"completion_tokens", "output_tokens"} {
		if v := u.Get(name); v.Exists() {
			t.OutputTokens = int(v.Int())
		}
	}
	if v := u.Get("cache_read_input_tokens"); v.Exists() { // Anthropic: input_tokens excludes the cached part
		t.CachedTokens = int(v.Int())
		t.PromptTokens = int(u.Get("input_tokens").Int() + v.Int() + u.Get("cache_creation_input_tokens").Int())
	}
}
