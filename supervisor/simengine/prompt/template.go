package prompt

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// Conversation is what all chat APIs come down to.
type Conversation struct {
	// System is the text before the first turn.
	System   string
	Messages []Message
	Tools    []Tool
}

// Message is one turn.
type Message struct {
	Role  string // system, user, assistant, tool
	Text  string
	Calls []Call // assistant only
}

// Call is one tool call.
type Call struct {
	Name      string
	Arguments string // JSON
}

// Tool is one tool offered to the model.
type Tool struct {
	Name string
	// Definition is the tool as JSON; it is part of the prompt.
	Definition json.RawMessage
}

// Canonical returns JSON with sorted keys and no spaces, so that a value that
// went through a client's parser still gives the same tokens. What is not JSON
// is returned as it is.
func Canonical(raw []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil || decoder.More() {
		return string(raw)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return string(raw)
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// Render returns the prompt of a conversation in the shape of ChatML:
//
//	<|im_start|>role
//	content<|im_end|>
//
// for each turn and then <|im_start|>assistant with its line break. Tools stand
// behind the system text, as in the templates of the Qwen family, so two
// conversations with different system texts do not even share their tools.
func Render(t Tokenizer, c Conversation) []core.Token {
	r := renderer{Tokenizer: t}
	if system := c.System + toolText(c.Tools); system != "" {
		r.turn("system", system)
	}
	for _, m := range c.Messages {
		r.turn(m.Role, AssistantText(m.Text, m.Calls))
	}
	r.open("assistant")
	return r.tokens
}

type renderer struct {
	Tokenizer
	tokens []core.Token
}

// open and turn tokenize each part on its own: the tokens of a content are the
// same whatever stands around it.
func (r *renderer) open(role string) {
	r.tokens = append(r.tokens, r.Special(TurnStart))
	r.tokens = r.Append(r.tokens, role)
	r.tokens = r.Append(r.tokens, "\n")
}

func (r *renderer) turn(role, content string) {
	r.open(role)
	r.tokens = r.Append(r.tokens, content)
	r.tokens = append(r.tokens, r.Special(TurnEnd))
	r.tokens = r.Append(r.tokens, "\n")
}

func toolText(tools []Tool) string {
	if len(tools) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n\n# Tools\n\n<tools>")
	for _, tool := range tools {
		b.WriteString("\n" + Canonical(tool.Definition))
	}
	b.WriteString("\n</tools>")
	return b.String()
}

// AssistantText is what a model that answers with this text and these calls
// has generated, and what the template shows it later.
func AssistantText(text string, calls []Call) string {
	for _, call := range calls {
		if text != "" {
			text += "\n"
		}
		text += callHead(call) + Canonical([]byte(call.Arguments)) + callTail
	}
	return text
}

func callHead(c Call) string {
	name, _ := json.Marshal(c.Name) // a string always marshals
	return `<tool_call>` + "\n" + `{"name": ` + string(name) + `, "arguments": `
}

const callTail = "}\n</tool_call>"
