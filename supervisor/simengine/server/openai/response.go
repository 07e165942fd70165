package openai

import (
	"encoding/json"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// responsesReply builds the wire shapes of the Responses API.
type responsesReply struct {
	api.Head
	request *Responses
}

type responseOut struct {
	ID                 string            `json:"id"`
	CreatedAt          int64             `json:"created_at"`
	IncompleteDetails  *incomplete       `json:"incomplete_details"`
	Instructions       *string           `json:"instructions"`
	Metadata           json.RawMessage   `json:"metadata"`
	Model              string            `json:"model"`
	Object             string            `json:"object"`
	Output             []any             `json:"output"`
	ParallelToolCalls  bool              `json:"parallel_tool_calls"`
	Temperature        float64           `json:"temperature"`
	ToolChoice         string            `json:"tool_choice"`
	Tools              []json.RawMessage `json:"tools"`
	TopP               float64           `json:"top_p"`
	Background         bool              `json:"background"`
	MaxOutputTokens    int               `json:"max_output_tokens"`
	MaxToolCalls       *int              `json:"max_tool_calls"`
	PreviousResponseID *string           `json:"previous_response_id"`
	Prompt             *string           `json:"prompt"`
	Reasoning          *string           `json:"reasoning"`
	ServiceTier        string            `json:"service_tier"`
	Status             string            `json:"status"`
	Text               *string           `json:"text"`
	TopLogprobs        *int              `json:"top_logprobs"`
	Truncation         string            `json:"truncation"`
	Usage              *responseUsage    `json:"usage"`
	User               *string           `json:"user"`
	PresencePenalty    float64           `json:"presence_penalty"`
	FrequencyPenalty   float64           `json:"frequency_penalty"`
	KVTransferParams   *string           `json:"kv_transfer_params"`
	ECTransferParams   *string           `json:"ec_transfer_params"`
	InputMessages      *string           `json:"input_messages"`
	OutputMessages     *string           `json:"output_messages"`
	// SystemFingerprint is not in the API: it carries the label.
	SystemFingerprint *string `json:"system_fingerprint,omitempty"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type responseUsage struct {
	Input         int           `json:"input_tokens"`
	InputDetails  inputDetails  `json:"input_tokens_details"`
	Output        int           `json:"output_tokens"`
	OutputDetails outputDetails `json:"output_tokens_details"`
	Total         int           `json:"total_tokens"`
}

type inputDetails struct {
	Cached        int   `json:"cached_tokens"`
	Written       *int  `json:"cache_write_tokens,omitempty"` // not before 0.32
	InputPerTurn  []int `json:"input_tokens_per_turn"`
	CachedPerTurn []int `json:"cached_tokens_per_turn"`
}

type outputDetails struct {
	Reasoning         int   `json:"reasoning_tokens"`
	ToolOutput        int   `json:"tool_output_tokens"`
	OutputPerTurn     []int `json:"output_tokens_per_turn"`
	ToolOutputPerTurn []int `json:"tool_output_tokens_per_turn"`
}

// messageItem is an answer's text as an output item.
type messageItem struct {
	ID      string       `json:"id"`
	Content []outputText `json:"content"`
	Role    string       `json:"role"`
	Status  string       `json:"status"`
	Type    string       `json:"type"`
	Phase   *string      `json:"phase"`
}

// callItem is a tool call as an output item.
type callItem struct {
	Arguments string  `json:"arguments"`
	CallID    string  `json:"call_id"`
	Name      string  `json:"name"`
	Type      string  `json:"type"`
	ID        string  `json:"id"`
	Namespace *string `json:"namespace"`
	Status    string  `json:"status"`
}

type outputText struct {
	Annotations []string  `json:"annotations"`
	Text        string    `json:"text"`
	Type        string    `json:"type"`
	Logprobs    *[]string `json:"logprobs"`
}

func newOutputText(text string) outputText {
	return outputText{Type: "output_text", Text: text, Annotations: []string{}}
}

// response is the object with nothing generated yet.
func (r *responsesReply) response(limit int) responseOut {
	q := r.request
	out := responseOut{
		ID: r.ID, CreatedAt: r.Created, Model: r.Model(), Object: "response", Output: []any{},
		ParallelToolCalls: q.ParallelToolCalls == nil || *q.ParallelToolCalls,
		Temperature:       1, ToolChoice: "none", Tools: q.Tools, TopP: 1, MaxOutputTokens: limit,
		ServiceTier: "auto", Status: "in_progress", Truncation: "disabled",
		Metadata: q.Metadata, SystemFingerprint: r.Fingerprint,
	}
	if q.Instructions != "" {
		out.Instructions = &q.Instructions
	}
	if len(out.Tools) > 0 {
		out.ToolChoice = "auto"
	} else {
		out.Tools = []json.RawMessage{}
	}
	if out.Metadata == nil {
		out.Metadata = json.RawMessage("null")
	}
	return out
}

// Whole implements api.Reply.
func (r *responsesReply) Whole(answers []*api.Answer) any { return r.completed(answers[0]) }

// Stream implements api.Reply.
func (r *responsesReply) Stream(e *wire.Events, a *api.Answer) api.Stream {
	return &responsesStream{responsesReply: r, events: e, answer: a}
}

func (r *responsesReply) completed(a *api.Answer) responseOut {
	out := r.response(a.Limit)
	c := &a.Choices[0]
	out.Status = "completed"
	if c.Reason == string(core.Length) {
		out.Status = "incomplete"
		out.IncompleteDetails = &incomplete{Reason: "max_output_tokens"}
	}
	if text, shown := c.Text(); shown {
		out.Output = append(out.Output, r.message("completed", text))
	}
	for i, arguments := range c.Arguments {
		out.Output = append(out.Output, r.call(c, i, "completed", arguments))
	}
	prefill := a.Prefill()
	out.Usage = &responseUsage{
		Input: a.Prompt, Output: a.Tokens(), Total: a.Prompt + a.Tokens(),
		InputDetails:  inputDetails{Cached: prefill.Cached(), InputPerTurn: []int{}, CachedPerTurn: []int{}},
		OutputDetails: outputDetails{OutputPerTurn: []int{}, ToolOutputPerTurn: []int{}},
	}
	if r.Dialect == api.V032 {
		out.Usage.InputDetails.Written = &prefill.Created
	}
	return out
}

func (r *responsesReply) message(status, text string) messageItem {
	item := messageItem{ID: "msg_" + api.StableID(r.ID), Type: "message", Status: status, Role: "assistant", Content: []outputText{}}
	if text != "" {
		item.Content = append(item.Content, newOutputText(text))
	}
	return item
}

func (r *responsesReply) call(c *api.Choice, call int, status, arguments string) callItem {
	return callItem{
		ID: "fc_" + api.StableID(r.ID, call), Type: "function_call", Status: status,
		CallID: r.CallID(0, call), Name: c.CallName(call), Arguments: arguments,
	}
}
