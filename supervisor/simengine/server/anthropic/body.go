package anthropic

import (
	"encoding/json"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// body is what the bodies of this API have in common.
type body struct {
	Model         string            `json:"model"`
	Messages      []turn            `json:"messages"`
	System        json.RawMessage   `json:"system"`
	MaxTokens     *int              `json:"max_tokens"`
	Stream        bool              `json:"stream"`
	StopSequences []string          `json:"stop_sequences"`
	Tools         []json.RawMessage `json:"tools"`
	CacheSalt     string            `json:"cache_salt"`
	IgnoreEOS     bool              `json:"ignore_eos"` // not Anthropic's; for load tests
}

type turn struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type block struct {
	Type    string          `json:"type"`
	Text    string          `json:"text"`
	Name    string          `json:"name"`
	Input   json.RawMessage `json:"input"`
	Content json.RawMessage `json:"content"`
}

// billingHeader begins a system block that Claude Code changes with each
// request; vLLM leaves it out of the prompt where the system is a list.
const billingHeader = "x-anthropic-billing-header"

// blocks reads a content: a string is one text block.
func blocks(raw json.RawMessage) ([]block, bool) {
	var text string
	if len(raw) == 0 {
		return nil, true
	}
	if json.Unmarshal(raw, &text) == nil {
		return []block{{Type: "text", Text: text}}, true
	}
	var list []block
	return list, json.Unmarshal(raw, &list) == nil
}

// systemText joins the text blocks of a system prompt or system turn.
func systemText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	list, _ := blocks(raw)
	var b strings.Builder
	for _, part := range list {
		if part.Type == "text" && !strings.HasPrefix(part.Text, billingHeader) {
			b.WriteString(part.Text)
		}
	}
	return b.String()
}

// lacking names the required fields that the body does not have.
func (q *body) lacking(generates bool) *wire.Error {
	var out []wire.Problem
	if q.Model == "" {
		out = append(out, wire.Missing("model"))
	}
	if q.Messages == nil {
		out = append(out, wire.Missing("messages"))
	}
	if generates && q.MaxTokens == nil {
		out = append(out, wire.Missing("max_tokens"))
	}
	if len(out) == 0 {
		return nil
	}
	return wire.Invalid(out...)
}

func (q *body) conversation(s api.Settings) (prompt.Conversation, *wire.Error) {
	var c prompt.Conversation
	if len(q.Messages) == 0 {
		return c, wire.Invalid(wire.Missing("messages"))
	}
	c.System = systemText(q.System)
	for _, t := range q.Messages {
		if t.Role == "system" {
			// Merged into the leading text, each new system turn changes the
			// prompt's beginning: the prefix cache is lost from there on.
			if text := systemText(t.Content); s.SystemAnywhere && text != "" {
				c.Messages = append(c.Messages, prompt.Message{Role: "system", Text: text})
			} else {
				c.System += text
			}
			continue
		}
		list, ok := blocks(t.Content)
		if !ok {
			return c, wire.BadRequest("messages", "content must be a string or a list of blocks.")
		}
		c.Messages = append(c.Messages, turnMessages(t.Role, list)...)
	}
	for _, raw := range q.Tools {
		var tool struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &tool) != nil || tool.Name == "" {
			return c, wire.BadRequest("tools", "each tool needs a name.")
		}
		c.Tools = append(c.Tools, prompt.Tool{Name: tool.Name, Definition: dropCacheControl(raw)})
	}
	return c, nil
}

// dropCacheControl removes what is no part of the prompt.
func dropCacheControl(raw json.RawMessage) json.RawMessage {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return raw
	}
	delete(fields, "cache_control")
	return wire.Encode(fields)
}

// turnMessages splits a turn: tool results become turns of their own, and
// thinking of earlier turns is left out.
func turnMessages(role string, list []block) []prompt.Message {
	var out []prompt.Message
	own := prompt.Message{Role: role}
	some := false
	for _, part := range list {
		switch part.Type {
		case "tool_result":
			text := ""
			if inner, ok := blocks(part.Content); ok {
				for _, b := range inner {
					text += b.Text
				}
			}
			out = append(out, prompt.Message{Role: "tool", Text: text})
			continue
		case "text":
			own.Text += part.Text
		case "tool_use":
			own.Calls = append(own.Calls, prompt.Call{Name: part.Name, Arguments: string(part.Input)})
		case "thinking", "redacted_thinking":
		default:
			own.Text += "<" + part.Type + ">"
		}
		some = true
	}
	if some || len(out) == 0 {
		out = append(out, own)
	}
	return out
}

// Messages is the body of /v1/messages.
type Messages struct{ body }

// Validate finds what vLLM's framework finds.
func (q *Messages) Validate() *wire.Error { return q.lacking(true) }

// Job implements api.Request.
func (q *Messages) Job(s api.Settings) (api.Job, *wire.Error) {
	conversation, err := q.conversation(s)
	if err != nil {
		return api.Job{}, err
	}
	t := api.ChatTask(s.Tokenizer, api.Sampling{
		Model: q.Model, MaxTokens: q.MaxTokens, Stop: q.StopSequences, CacheSalt: q.CacheSalt, IgnoreEOS: q.IgnoreEOS,
	}, conversation)
	t.LimitName = "max_completion_tokens" // what vLLM turns it into
	return api.Job{Tasks: []api.Task{t}, Stream: q.Stream, Prefix: "chatcmpl-"}, nil
}

// Reply implements api.Request.
func (q *Messages) Reply(h api.Head) api.Reply { return &reply{h} }
