package openai

import (
	"encoding/json"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Chat is the body of /v1/chat/completions.
type Chat struct {
	api.Sampling
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

func (q *Chat) conversation() (prompt.Conversation, *wire.Error) {
	var c prompt.Conversation
	if len(q.Messages) == 0 {
		return c, wire.Invalid(wire.Missing("messages"))
	}
	for _, m := range q.Messages {
		text, err := contentText(m.Content)
		if err != nil {
			return c, err
		}
		out := prompt.Message{Role: m.Role, Text: text}
		for _, call := range m.ToolCalls {
			out.Calls = append(out.Calls, prompt.Call{Name: call.Function.Name, Arguments: call.Function.Arguments})
		}
		addMessage(&c, out)
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
			return c, wire.BadRequest("tools", "each tool needs a function with a name.")
		}
		c.Tools = append(c.Tools, prompt.Tool{Name: tool.Function.Name, Definition: raw})
	}
	return c, nil
}

// Job implements api.Request.
func (q *Chat) Job(s api.Settings) (api.Job, *wire.Error) {
	conversation, err := q.conversation()
	if err != nil {
		return api.Job{}, err
	}
	t := api.ChatTask(s.Tokenizer, q.Sampling, conversation)
	if q.MaxCompletionTokens != nil {
		t.MaxTokens, t.LimitName = q.MaxCompletionTokens, "max_completion_tokens"
	}
	return api.Job{Tasks: []api.Task{t}, Stream: q.Stream, Prefix: "chatcmpl-"}, nil
}

// Reply implements api.Request.
func (q *Chat) Reply(h api.Head) api.Reply {
	r := newReply(h, q.StreamOptions, h.Created)
	r.countsCreated = true
	return &chatReply{r}
}

// chatReply builds the wire shapes of one chat completion.
type chatReply struct{ reply }

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
	completionHead[chatChoice]
	PromptLogprobs   *string      `json:"prompt_logprobs"`
	PromptTokenIDs   []core.Token `json:"prompt_token_ids"`
	PromptText       *string      `json:"prompt_text"`
	KVTransferParams *string      `json:"kv_transfer_params"`
	ECTransferParams *string      `json:"ec_transfer_params"`
	Metrics          *string      `json:"metrics"`
}

// Whole implements api.Reply.
func (r *chatReply) Whole(answers []*api.Answer) any {
	a := answers[0]
	var choices []chatChoice
	for i := range a.Choices {
		c := &a.Choices[i]
		message := chatMessageOut{Role: "assistant"}
		if text, shown := c.Text(); shown {
			message.Content = &text
		}
		for n, arguments := range c.Arguments {
			message.ToolCalls = append(message.ToolCalls, toolCall{
				ID: r.CallID(i, n), Type: "function",
				Function: toolFunction{Name: c.CallName(n), Arguments: arguments},
			})
		}
		choices = append(choices, chatChoice{Index: i, Message: message, FinishReason: finishReason(c), StopReason: c.Stop})
	}
	return chatCompletion{completionHead: wholeHead(&r.reply, "chat.completion", choices, answers)}
}

// finishReason is why a chat ended, in OpenAI's words.
func finishReason(c *api.Choice) string {
	if c.Reason == string(core.Stop) && len(c.Arguments) > 0 {
		return "tool_calls"
	}
	return c.Reason
}

type chatChunkChoice struct {
	Index        int       `json:"index"`
	Delta        chatDelta `json:"delta"`
	Logprobs     wire.Null `json:"logprobs"`
	FinishReason *string   `json:"finish_reason"`
	StopReason   any       `json:"stop_reason,omitempty"`
	TokenIDs     wire.Null `json:"token_ids,omitempty"`
}

type chatDelta struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content,omitempty"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
}

// Stream implements api.Reply.
func (r *chatReply) Stream(e *wire.Events, a *api.Answer) api.Stream {
	return &stream[chatChunkChoice]{
		reply: &r.reply, events: e, answer: a, object: "chat.completion.chunk",
		opening: chatOpening, token: r.chunkChoice, usageNulls: wire.IsNull,
	}
}

// chatOpening gives a choice its role.
func chatOpening(choice int) chatChunkChoice {
	empty := ""
	return chatChunkChoice{Index: choice, Delta: chatDelta{Role: "assistant", Content: &empty}, Logprobs: wire.IsNull}
}

func (r *chatReply) chunkChoice(index int, c *api.Choice, pieces []prompt.Piece) chatChunkChoice {
	out := chatChunkChoice{Index: index, Delta: r.delta(index, pieces), Logprobs: wire.IsNull, TokenIDs: wire.IsNull}
	if c.Reason != "" {
		reason := finishReason(c)
		out.FinishReason = &reason
		out.StopReason = wire.IsNull
		if c.Stop != nil {
			out.StopReason = *c.Stop
		}
	}
	return out
}

func (r *chatReply) delta(choice int, pieces []prompt.Piece) chatDelta {
	var d chatDelta
	content := ""
	for _, piece := range pieces {
		index := piece.Call
		switch piece.Kind {
		case prompt.Content:
			content += piece.Text
		case prompt.CallStart:
			d.ToolCalls = append(d.ToolCalls, toolCall{
				Index: &index, ID: r.CallID(choice, index), Type: "function",
				Function: toolFunction{Name: piece.Text},
			})
		case prompt.CallArguments:
			if last := len(d.ToolCalls) - 1; last >= 0 && *d.ToolCalls[last].Index == index {
				d.ToolCalls[last].Function.Arguments += piece.Text
				continue
			}
			d.ToolCalls = append(d.ToolCalls, toolCall{Index: &index, Function: toolFunction{Arguments: piece.Text}})
		}
	}
	if len(d.ToolCalls) == 0 {
		d.Content = &content
	}
	return d
}
