package server

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

type messagesRequest struct {
	Model         string            `json:"model"`
	Messages      []anthropicTurn   `json:"messages"`
	System        json.RawMessage   `json:"system"`
	MaxTokens     *int              `json:"max_tokens"`
	Stream        bool              `json:"stream"`
	StopSequences []string          `json:"stop_sequences"`
	Tools         []json.RawMessage `json:"tools"`
	CacheSalt     string            `json:"cache_salt"`
	IgnoreEOS     bool              `json:"ignore_eos"` // not Anthropic's; for load tests
}

type anthropicTurn struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
}

type anthropicBlock struct {
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
func blocks(raw json.RawMessage) ([]anthropicBlock, bool) {
	var text string
	if len(raw) == 0 {
		return nil, true
	}
	if json.Unmarshal(raw, &text) == nil {
		return []anthropicBlock{{Type: "text", Text: text}}, true
	}
	var list []anthropicBlock
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
	for _, block := range list {
		if block.Type == "text" && !strings.HasPrefix(block.Text, billingHeader) {
			b.WriteString(block.Text)
		}
	}
	return b.String()
}

// lacking are the required fields that the body does not have.
func (q *messagesRequest) lacking(generates bool) []problem {
	var out []problem
	if q.Model == "" {
		out = append(out, missing("model"))
	}
	if q.Messages == nil {
		out = append(out, missing("messages"))
	}
	if generates && q.MaxTokens == nil {
		out = append(out, missing("max_tokens"))
	}
	return out
}

func (s *Server) messagesConversation(q *messagesRequest) (prompt.Conversation, *apiError) {
	var c prompt.Conversation
	if len(q.Messages) == 0 {
		return c, invalid(missing("messages"))
	}
	c.System = systemText(q.System)
	for _, turn := range q.Messages {
		if turn.Role == "system" {
			// Merged into the leading text, each new system turn changes the
			// prompt's beginning: the prefix cache is lost from there on.
			if text := systemText(turn.Content); s.opts.SystemAnywhere && text != "" {
				c.Messages = append(c.Messages, prompt.Message{Role: "system", Text: text})
			} else {
				c.System += text
			}
			continue
		}
		list, ok := blocks(turn.Content)
		if !ok {
			return c, badRequest("messages", "content must be a string or a list of blocks.")
		}
		c.Messages = append(c.Messages, turnMessages(turn.Role, list)...)
	}
	for _, raw := range q.Tools {
		var tool struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &tool) != nil || tool.Name == "" {
			return c, badRequest("tools", "each tool needs a name.")
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
	return encode(fields)
}

// turnMessages splits a turn: tool results become turns of their own, and
// thinking of earlier turns is left out.
func turnMessages(role string, list []anthropicBlock) []prompt.Message {
	var out []prompt.Message
	own := prompt.Message{Role: role}
	some := false
	for _, block := range list {
		switch block.Type {
		case "tool_result":
			text := ""
			if inner, ok := blocks(block.Content); ok {
				for _, b := range inner {
					text += b.Text
				}
			}
			out = append(out, prompt.Message{Role: "tool", Text: text})
			continue
		case "text":
			own.Text += block.Text
		case "tool_use":
			own.Calls = append(own.Calls, prompt.Call{Name: block.Name, Arguments: string(block.Input)})
		case "thinking", "redacted_thinking":
		default:
			own.Text += "<" + block.Type + ">"
		}
		some = true
	}
	if some || len(out) == 0 {
		out = append(out, own)
	}
	return out
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	var q messagesRequest
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err) // vLLM's validation errors have OpenAI's shape here, too
		return
	}
	if lacking := q.lacking(true); len(lacking) > 0 {
		failOpenAI(w, invalid(lacking...))
		return
	}
	conversation, apiErr := s.messagesConversation(&q)
	if apiErr != nil {
		failAnthropic(w, apiErr)
		return
	}
	t := s.chatTask(sampling{
		Model: q.Model, MaxTokens: q.MaxTokens, Stop: q.StopSequences, CacheSalt: q.CacheSalt, IgnoreEOS: q.IgnoreEOS,
	}, conversation)
	t.maxParam = "max_completion_tokens" // what vLLM turns it into
	g, err := s.start(r, t)
	if err != nil {
		failStart(w, err, failAnthropic)
		return
	}
	defer g.close()
	reply := messagesReply{server: s, id: s.newID("chatcmpl-", r), model: s.modelName()}
	cut := s.faults.Cut(t.script.Cut)
	if q.Stream {
		reply.stream(openStream(w, r, cut), g)
		return
	}
	result, err := s.collect(r, g)
	if err != nil {
		failStart(w, err, failAnthropic)
		return
	}
	writeAnswer(w, r, cut, reply.full(result))
}

func (s *Server) countTokens(w http.ResponseWriter, r *http.Request) {
	var q messagesRequest
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err)
		return
	}
	if lacking := q.lacking(false); len(lacking) > 0 {
		failOpenAI(w, invalid(lacking...))
		return
	}
	conversation, err := s.messagesConversation(&q)
	if err == nil {
		err = s.checkModel(q.Model)
	}
	if err != nil {
		failAnthropic(w, err)
		return
	}
	n := len(prompt.Render(s.opts.Tokenizer, conversation))
	type management struct {
		Original int `json:"original_input_tokens"`
	}
	writeJSON(w, http.StatusOK, struct {
		Input   int        `json:"input_tokens"`
		Context management `json:"context_management"`
	}{n, management{n}})
}

// messagesReply builds Anthropic's wire shapes.
type messagesReply struct {
	server *Server
	id     string
	model  string
}

// anthropicUsage has the cache fields only where they are measured.
type anthropicUsage struct {
	Input    int  `json:"input_tokens"`
	Output   int  `json:"output_tokens"`
	Creation *int `json:"cache_creation_input_tokens,omitempty"`
	Read     *int `json:"cache_read_input_tokens,omitempty"`
}

// usage splits a prompt into read, written and the rest, as Anthropic does.
func (m *messagesReply) usage(t *tracker) anthropicUsage {
	u := anthropicUsage{Input: t.generation.prompt, Output: t.tokens()}
	if m.server.opts.PromptTokensDetails {
		read, created := t.prefill().Cached(), t.prefill().Created
		u.Input -= read + created
		u.Read, u.Creation = &read, &created
	}
	return u
}

type anthropicContent struct {
	Type  string          `json:"type"`
	Text  *string         `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

type anthropicMessage struct {
	ID           string             `json:"id"`
	Type         string             `json:"type"`
	Role         string             `json:"role"`
	Content      []anthropicContent `json:"content"`
	Model        string             `json:"model"`
	StopReason   any                `json:"stop_reason,omitempty"`
	StopSequence any                `json:"stop_sequence,omitempty"` // null in streams, absent in full answers
	Usage        anthropicUsage     `json:"usage"`
}

func (m *messagesReply) message() anthropicMessage {
	return anthropicMessage{ID: m.id, Type: "message", Role: "assistant", Content: []anthropicContent{}, Model: m.model}
}

// stopReason is the finish reason in Anthropic's words.
func (p *progress) stopReason() (reason, sequence *string) {
	word := "end_turn"
	switch {
	case p.reason == string(core.Length):
		word = "max_tokens"
	case len(p.arguments) > 0:
		word = "tool_use"
	case p.stop != nil:
		word = "stop_sequence"
	}
	return &word, p.stop
}

func (m *messagesReply) full(t *tracker) anthropicMessage {
	p := &t.choices[0]
	out := m.message()
	text := p.text.String()
	if text != "" || len(p.arguments) == 0 {
		out.Content = append(out.Content, anthropicContent{Type: "text", Text: &text})
	}
	for i, arguments := range p.arguments {
		input := json.RawMessage(arguments)
		if !json.Valid(input) {
			input = json.RawMessage("{}") // cut short by max_tokens
		}
		out.Content = append(out.Content, anthropicContent{
			Type: "tool_use", ID: m.server.callID(m.id, 0, i), Name: t.generation.choices[0].answer.Calls[i].Name, Input: input,
		})
	}
	reason, sequence := p.stopReason()
	out.StopReason = reason
	if sequence != nil {
		out.StopSequence = sequence
	}
	out.Usage = m.usage(t)
	return out
}
