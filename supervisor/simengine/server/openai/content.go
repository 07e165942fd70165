package openai

import (
	"encoding/json"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// contentText flattens a content: a string, null, or a list of parts.
func contentText(raw json.RawMessage) (string, *wire.Error) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", wire.BadRequest("messages", "content must be a string or a list of parts.")
	}
	var b strings.Builder
	for _, p := range parts {
		switch p.Type {
		case "text", "input_text", "output_text", "summary_text":
			b.WriteString(p.Text)
		default:
			b.WriteString("<" + p.Type + ">") // an image still takes room in the prompt
		}
	}
	return b.String(), nil
}

// addMessage adds a turn to a conversation. A system text before all turns is
// the conversation's own; developer is a newer word for system.
func addMessage(c *prompt.Conversation, m prompt.Message) {
	if m.Role == "developer" {
		m.Role = "system"
	}
	if m.Role == "system" && len(c.Messages) == 0 && c.System == "" {
		c.System = m.Text
		return
	}
	c.Messages = append(c.Messages, m)
}

// inputs reads a string, a list of strings, a list of token ids or a list of
// such lists, and returns each prompt's tokens and text.
func inputs(t prompt.Tokenizer, raw json.RawMessage, field string) (prompts [][]core.Token, texts []string, failure *wire.Error) {
	var text string
	var list []string
	var ids []core.Token
	var lists [][]core.Token
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil, emptyInput(field)
	case json.Unmarshal(raw, &text) == nil:
		list = []string{text}
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		lists = [][]core.Token{ids}
	case json.Unmarshal(raw, &list) == nil:
	case json.Unmarshal(raw, &lists) == nil:
	default:
		return nil, nil, wire.BadRequest(field, "%s must be a string, a list of strings, a list of token ids or a list of such lists.", field)
	}
	for _, text := range list {
		prompts, texts = append(prompts, t.Append(nil, text)), append(texts, text)
	}
	for _, ids := range lists {
		text, err := t.Decode(ids)
		if err != nil {
			return nil, nil, wire.BadRequest(field, "%v", err)
		}
		prompts, texts = append(prompts, ids), append(texts, text)
	}
	for _, p := range prompts {
		if len(p) == 0 {
			return nil, nil, emptyInput(field)
		}
	}
	if len(prompts) == 0 {
		return nil, nil, emptyInput(field)
	}
	return prompts, texts, nil
}

func emptyInput(field string) *wire.Error {
	return wire.BadRequest(field, "Either prompt or prompt_embeds must be provided and non-empty. (parameter=%s)", field)
}
