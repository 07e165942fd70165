package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

type chatRequest struct {
	sampling
	Messages            []chatMessage     `json:"messages"`
	MaxCompletionTokens *int              `json:"max_completion_tokens"`
	Tools               []json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage   `json:"tool_choice"`
}

type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []struct {
		Function struct {
			Name      string `json:"name"`
			Arguments string `json:"arguments"`
		} `json:"function"`
	} `json:"tool_calls"`
}

// contentText flattens a content: a string, null, or a list of parts.
func contentText(raw json.RawMessage) (string, *apiError) {
	var text string
	if len(raw) == 0 || json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(raw, &parts) != nil {
		return "", badRequest("messages", "content must be a string or a list of parts.")
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

func (q *chatRequest) conversation() (prompt.Conversation, *apiError) {
	var c prompt.Conversation
	if len(q.Messages) == 0 {
		return c, invalid(missing("messages"))
	}
	for _, m := range q.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return c, err
		}
		role := m.Role
		if role == "developer" {
			role = "system"
		}
		if role == "system" && len(c.Messages) == 0 && c.System == "" {
			c.System = text
			continue
		}
		out := prompt.Message{Role: role, Text: text}
		for _, call := range m.ToolCalls {
			out.Calls = append(out.Calls, prompt.Call{Name: call.Function.Name, Arguments: call.Function.Arguments})
		}
		c.Messages = append(c.Messages, out)
	}
	if string(q.ToolChoice) == `"none"` {
		return c, nil
	}
	for _, raw := range q.Tools {
		var tool struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(raw, &tool) != nil || tool.Function.Name == "" {
			return c, badRequest("tools", "each tool needs a function with a name.")
		}
		c.Tools = append(c.Tools, prompt.Tool{Name: tool.Function.Name, Definition: raw})
	}
	return c, nil
}

// chatTask makes a task of a conversation.
func (s *Server) chatTask(q sampling, c prompt.Conversation) task {
	script, calls := c.Script()
	return task{sampling: q, prompt: prompt.Render(s.opts.Tokenizer, c), script: script, calls: calls}
}

func (s *Server) chat(w http.ResponseWriter, r *http.Request) {
	var q chatRequest
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err)
		return
	}
	conversation, apiErr := q.conversation()
	if apiErr != nil {
		failOpenAI(w, apiErr)
		return
	}
	t := s.chatTask(q.sampling, conversation)
	if q.MaxCompletionTokens != nil {
		t.MaxTokens, t.maxParam = q.MaxCompletionTokens, "max_completion_tokens"
	}
	g, err := s.start(r, t)
	if err != nil {
		failStart(w, err, failOpenAI)
		return
	}
	defer g.close()
	reply := chatReply{id: s.newID("chatcmpl-", r), created: time.Now().Unix(), model: s.modelName(), server: s}
	cut := s.faults.Cut(t.script.Cut)
	if q.Stream {
		reply.usage = q.StreamOptions.IncludeUsage || s.opts.ForceIncludeUsage
		reply.continuous = reply.usage && (q.StreamOptions.ContinuousUsageStats || s.opts.ForceIncludeUsage)
		reply.stream(openStream(w, r, cut), g)
		return
	}
	result, err := s.collect(r, g)
	if err != nil {
		failStart(w, err, failOpenAI)
		return
	}
	writeAnswer(w, r, cut, reply.full(result))
}

// failStart answers an error unless there is nobody to answer.
func failStart(w http.ResponseWriter, err error, fail func(http.ResponseWriter, *apiError)) {
	var apiErr *apiError
	if errors.As(err, &apiErr) {
		fail(w, apiErr)
	}
}

// chatReply builds the wire shapes of one chat completion.
type chatReply struct {
	server            *Server
	id                string
	created           int64
	model             string
	usage, continuous bool
}

type usageInfo struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Details          *promptDetails `json:"prompt_tokens_details"`
	OutputDetails    *string        `json:"completion_tokens_details"`
}

type promptDetails struct {
	Cached     int     `json:"cached_tokens"`
	Created    *int    `json:"created_cache_tokens"` // chat only
	Multimodal *string `json:"multimodal_tokens"`
}

// streamUsage is usageInfo as it appears in streams, without unset fields.
type streamUsage struct {
	PromptTokens     int            `json:"prompt_tokens"`
	TotalTokens      int            `json:"total_tokens"`
	CompletionTokens int            `json:"completion_tokens"`
	Details          *streamDetails `json:"prompt_tokens_details,omitempty"`
	OutputDetails    null           `json:"completion_tokens_details,omitempty"`
}

type streamDetails struct {
	Cached  int  `json:"cached_tokens"`
	Created *int `json:"created_cache_tokens,omitempty"`
}

func (u usageInfo) stream() *streamUsage {
	out := &streamUsage{PromptTokens: u.PromptTokens, TotalTokens: u.TotalTokens, CompletionTokens: u.CompletionTokens}
	if u.Details != nil {
		out.Details = &streamDetails{Cached: u.Details.Cached, Created: u.Details.Created}
	}
	return out
}

func (s *Server) usage(prompt, generated int, details *promptDetails) usageInfo {
	return usageInfo{PromptTokens: prompt, CompletionTokens: generated, TotalTokens: prompt + generated, Details: details}
}

// details are the cached tokens of a chat; nil without the flag.
func (s *Server) details(p core.Prefill) *promptDetails {
	if !s.opts.PromptTokensDetails {
		return nil
	}
	created := p.Created
	return &promptDetails{Cached: p.Cached(), Created: &created}
}

type toolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatMessageOut struct {
	Role         string     `json:"role"`
	Content      *string    `json:"content"`
	Refusal      *string    `json:"refusal"`
	Annotations  *string    `json:"annotations"`
	Audio        *string    `json:"audio"`
	FunctionCall *string    `json:"function_call"`
	ToolCalls    []toolCall `json:"tool_calls,omitempty"`
	Reasoning    *string    `json:"reasoning"`
}

type chatChoice struct {
	Index        int            `json:"index"`
	Message      chatMessageOut `json:"message"`
	Logprobs     *string        `json:"logprobs"`
	FinishReason string         `json:"finish_reason"`
	StopReason   *string        `json:"stop_reason"`
	TokenIDs     []core.Token   `json:"token_ids"`
	Experts      *string        `json:"routed_experts"`
}

type chatCompletion struct {
	ID                string       `json:"id"`
	Object            string       `json:"object"`
	Created           int64        `json:"created"`
	Model             string       `json:"model"`
	Choices           []chatChoice `json:"choices"`
	ServiceTier       *string      `json:"service_tier"`
	SystemFingerprint *string      `json:"system_fingerprint"`
	Usage             usageInfo    `json:"usage"`
	PromptLogprobs    *string      `json:"prompt_logprobs"`
	PromptTokenIDs    []core.Token `json:"prompt_token_ids"`
	PromptText        *string      `json:"prompt_text"`
	KVTransferParams  *string      `json:"kv_transfer_params"`
	ECTransferParams  *string      `json:"ec_transfer_params"`
	Metrics           *string      `json:"metrics"`
}

func (c *chatReply) full(t *tracker) chatCompletion {
	out := chatCompletion{
		ID: c.id, Object: "chat.completion", Created: c.created, Model: c.model,
		SystemFingerprint: c.server.fingerprint(),
		Usage:             c.server.usage(t.generation.prompt, t.tokens(), c.server.details(t.prefill())),
	}
	for i := range t.choices {
		p := &t.choices[i]
		message := chatMessageOut{Role: "assistant"}
		if text := p.text.String(); text != "" || len(p.arguments) == 0 {
			message.Content = &text
		}
		for n, arguments := range p.arguments {
			message.ToolCalls = append(message.ToolCalls, toolCall{
				ID: c.server.callID(c.id, i, n), Type: "function",
				Function: toolFunction{Name: t.generation.choices[i].answer.Calls[n].Name, Arguments: arguments},
			})
		}
		out.Choices = append(out.Choices, chatChoice{Index: i, Message: message, FinishReason: p.finish(), StopReason: p.stop})
	}
	return out
}

// finish is the finish reason in OpenAI's words.
func (p *progress) finish() string {
	if p.reason == string(core.Stop) && len(p.arguments) > 0 {
		return "tool_calls"
	}
	return p.reason
}

// callID names a tool call; parts of a stream must agree on it.
func (s *Server) callID(request string, choice, call int) string {
	return "chatcmpl-tool-" + shortHash(request, choice, call)
}
