package anthropic

import (
	"encoding/json"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

type failure struct {
	Type  string      `json:"type"`
	Error failureInfo `json:"error"`
}

type failureInfo struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Failure is the wire.Shape of this API's errors.
func Failure(e *wire.Error) any {
	return failure{Type: "error", Error: failureInfo{Type: e.Type, Message: e.Message}}
}

// reply builds the wire shapes of one message.
type reply struct{ api.Head }

// usage has the cache fields only where they are measured.
type usage struct {
	Input    int  `json:"input_tokens"`
	Output   int  `json:"output_tokens"`
	Creation *int `json:"cache_creation_input_tokens,omitempty"`
	Read     *int `json:"cache_read_input_tokens,omitempty"`
}

// usage splits a prompt into read, written and the rest, as Anthropic does.
func (r *reply) usage(a *api.Answer) usage {
	u := usage{Input: a.Prompt, Output: a.Tokens()}
	if r.PromptTokensDetails {
		read, created := a.Prefill().Cached(), a.Prefill().Created
		u.Input -= read + created
		u.Read, u.Creation = &read, &created
	}
	return u
}

type content struct {
	Type  string          `json:"type"`
	Text  *string         `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type message struct {
	ID           string    `json:"id"`
	Type         string    `json:"type"`
	Role         string    `json:"role"`
	Content      []content `json:"content"`
	Model        string    `json:"model"`
	StopReason   any       `json:"stop_reason,omitempty"`
	StopSequence any       `json:"stop_sequence,omitempty"` // null in streams, absent in whole answers
	Usage        usage     `json:"usage"`
}

func (r *reply) message() message {
	return message{ID: r.ID, Type: "message", Role: "assistant", Content: []content{}, Model: r.Model()}
}

// stopReason is the finish reason in Anthropic's words.
func stopReason(c *api.Choice) string {
	switch {
	case c.Reason == string(core.Length):
		return "max_tokens"
	case len(c.Arguments) > 0:
		return "tool_use"
	case c.Stop != nil:
		return "stop_sequence"
	}
	return "end_turn"
}

// Whole implements api.Reply.
func (r *reply) Whole(answers []*api.Answer) any {
	a := answers[0]
	c := &a.Choices[0]
	out := r.message()
	if text, shown := c.Text(); shown {
		out.Content = append(out.Content, content{Type: "text", Text: &text})
	}
	for i, arguments := range c.Arguments {
		input := json.RawMessage(arguments)
		if !json.Valid(input) {
			input = json.RawMessage("{}") // cut short by max_tokens
		}
		out.Content = append(out.Content, content{Type: "tool_use", ID: r.CallID(0, i), Name: c.CallName(i), Input: input})
	}
	out.StopReason = stopReason(c)
	if c.Stop != nil {
		out.StopSequence = c.Stop
	}
	out.Usage = r.usage(a)
	return out
}

// Stream implements api.Reply.
func (r *reply) Stream(e *wire.Events, a *api.Answer) api.Stream {
	return &stream{reply: r, events: e, answer: a}
}
