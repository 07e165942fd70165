package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

type responsesRequest struct {
	Model              string            `json:"model"`
	Input              json.RawMessage   `json:"input"`
	Instructions       string            `json:"instructions"`
	MaxOutputTokens    *int              `json:"max_output_tokens"`
	Stream             bool              `json:"stream"`
	Tools              []json.RawMessage `json:"tools"`
	PreviousResponseID string            `json:"previous_response_id"`
	ParallelToolCalls  *bool             `json:"parallel_tool_calls"`
	Metadata           json.RawMessage   `json:"metadata"`
	Priority           int               `json:"priority"`
	CacheSalt          string            `json:"cache_salt"`
	IgnoreEOS          bool              `json:"ignore_eos"`
}

// responseItem is one element of an input list.
type responseItem struct {
	Type      string          `json:"type"`
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	Output    json.RawMessage `json:"output"`
}

func (q *responsesRequest) conversation() (prompt.Conversation, *apiError) {
	c := prompt.Conversation{System: q.Instructions}
	var text string
	var items []responseItem
	switch {
	case len(q.Input) == 0 || string(q.Input) == "null":
		return c, invalid(missing("input"))
	case json.Unmarshal(q.Input, &text) == nil:
		c.Messages = append(c.Messages, prompt.Message{Role: "user", Text: text})
	case json.Unmarshal(q.Input, &items) != nil:
		return c, badRequest("input", "input must be a string or a list of items.")
	}
	for _, item := range items {
		if err := appendItem(&c, item); err != nil {
			return c, err
		}
	}
	for _, raw := range q.Tools {
		var tool struct {
			Type string `json:"type"`
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &tool) != nil {
			return c, badRequest("tools", "each tool must be an object.")
		}
		if tool.Name == "" {
			tool.Name = tool.Type // built-in tools have no name
		}
		c.Tools = append(c.Tools, prompt.Tool{Name: tool.Name, Definition: raw})
	}
	return c, nil
}

func appendItem(c *prompt.Conversation, item responseItem) *apiError {
	switch item.Type {
	case "", "message":
		text, err := contentText(item.Content)
		if err != nil {
			return err
		}
		role := item.Role
		if role == "developer" {
			role = "system"
		}
		if role == "system" && len(c.Messages) == 0 && c.System == "" {
			c.System = text
			return nil
		}
		c.Messages = append(c.Messages, prompt.Message{Role: role, Text: text})
	case "function_call":
		call := prompt.Call{Name: item.Name, Arguments: item.Arguments}
		// Parallel calls are one turn of the model.
		if last := len(c.Messages) - 1; last >= 0 && c.Messages[last].Role == "assistant" {
			c.Messages[last].Calls = append(c.Messages[last].Calls, call)
			return nil
		}
		c.Messages = append(c.Messages, prompt.Message{Role: "assistant", Calls: []prompt.Call{call}})
	case "function_call_output":
		text, err := contentText(item.Output)
		if err != nil {
			return err
		}
		c.Messages = append(c.Messages, prompt.Message{Role: "tool", Text: text})
	}
	return nil // reasoning and unknown items are not shown to the model
}

func (s *Server) responses(w http.ResponseWriter, r *http.Request) {
	var q responsesRequest
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err)
		return
	}
	if q.PreviousResponseID != "" {
		failOpenAI(w, unknownResponse(q.PreviousResponseID))
		return
	}
	conversation, apiErr := q.conversation()
	if apiErr != nil {
		failOpenAI(w, apiErr)
		return
	}
	t := s.chatTask(sampling{
		Model: q.Model, MaxTokens: q.MaxOutputTokens, Priority: q.Priority, CacheSalt: q.CacheSalt, IgnoreEOS: q.IgnoreEOS,
	}, conversation)
	g, err := s.start(r, t)
	if err != nil {
		failStart(w, err, failOpenAI)
		return
	}
	defer g.close()
	reply := &responsesReply{
		server: s, request: &q, id: s.newID("resp_", r), created: time.Now().Unix(),
		limit: g.choices[0].counted.MaxTokens,
	}
	cut := s.faults.Cut(t.script.Cut)
	if q.Stream {
		reply.stream(openStream(w, r, cut), g)
		return
	}
	result, err := s.collect(r, g)
	if err != nil {
		failStart(w, err, failOpenAI)
		return
	}
	writeAnswer(w, r, cut, reply.completed(result))
}

// responseByID: nothing is stored, as in vLLM without
// VLLM_ENABLE_RESPONSES_API_STORE.
func (s *Server) responseByID(w http.ResponseWriter, r *http.Request) {
	failOpenAI(w, unknownResponse(r.PathValue("id")))
}

func unknownResponse(id string) *apiError {
	return &apiError{
		Status: http.StatusNotFound, Type: "invalid_request_error", Param: "response_id",
		Message: fmt.Sprintf("Response with id '%s' not found.", id),
	}
}

// responsesReply builds the wire shapes of the Responses API.
type responsesReply struct {
	server  *Server
	request *responsesRequest
	id      string
	created int64
	limit   int
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
func (a *responsesReply) response() responseOut {
	q := a.request
	out := responseOut{
		ID: a.id, CreatedAt: a.created, Model: a.server.modelName(), Object: "response", Output: []any{},
		ParallelToolCalls: q.ParallelToolCalls == nil || *q.ParallelToolCalls,
		Temperature:       1, ToolChoice: "none", Tools: q.Tools, TopP: 1, MaxOutputTokens: a.limit,
		ServiceTier: "auto", Status: "in_progress", Truncation: "disabled",
		Metadata: q.Metadata, SystemFingerprint: a.server.fingerprint(),
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

func (a *responsesReply) completed(t *tracker) responseOut {
	out := a.response()
	p := &t.choices[0]
	out.Status = "completed"
	if p.reason == string(core.Length) {
		out.Status = "incomplete"
		out.IncompleteDetails = &incomplete{Reason: "max_output_tokens"}
	}
	text := p.text.String()
	if text != "" || len(p.arguments) == 0 {
		out.Output = append(out.Output, a.message("completed", text))
	}
	for i := range p.arguments {
		out.Output = append(out.Output, a.call(t, i, "completed", p.arguments[i]))
	}
	prefill := t.prefill()
	out.Usage = &responseUsage{
		Input: t.generation.prompt, Output: t.tokens(), Total: t.generation.prompt + t.tokens(),
		InputDetails:  inputDetails{Cached: prefill.Cached(), InputPerTurn: []int{}, CachedPerTurn: []int{}},
		OutputDetails: outputDetails{OutputPerTurn: []int{}, ToolOutputPerTurn: []int{}},
	}
	if a.server.opts.Dialect == V032 {
		out.Usage.InputDetails.Written = &prefill.Created
	}
	return out
}

func (a *responsesReply) message(status, text string) messageItem {
	item := messageItem{ID: "msg_" + shortHash(a.id), Type: "message", Status: status, Role: "assistant", Content: []outputText{}}
	if text != "" {
		item.Content = append(item.Content, newOutputText(text))
	}
	return item
}

func (a *responsesReply) call(t *tracker, call int, status, arguments string) callItem {
	return callItem{
		ID: "fc_" + shortHash(a.id, call), Type: "function_call", Status: status,
		CallID: a.server.callID(a.id, 0, call), Name: t.generation.choices[0].answer.Calls[call].Name, Arguments: arguments,
	}
}
