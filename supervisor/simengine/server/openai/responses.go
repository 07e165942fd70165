package openai

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Responses is the body of /v1/responses.
type Responses struct {
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

func (q *Responses) conversation() (prompt.Conversation, *wire.Error) {
	c := prompt.Conversation{System: q.Instructions}
	var text string
	var items []responseItem
	switch {
	case len(q.Input) == 0 || string(q.Input) == "null":
		return c, wire.Invalid(wire.Missing("input"))
	case json.Unmarshal(q.Input, &text) == nil:
		c.Messages = append(c.Messages, prompt.Message{Role: "user", Text: text})
	case json.Unmarshal(q.Input, &items) != nil:
		return c, wire.BadRequest("input", "input must be a string or a list of items.")
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
			return c, wire.BadRequest("tools", "each tool must be an object.")
		}
		if tool.Name == "" {
			tool.Name = tool.Type // built-in tools have no name
		}
		c.Tools = append(c.Tools, prompt.Tool{Name: tool.Name, Definition: raw})
	}
	return c, nil
}

func appendItem(c *prompt.Conversation, item responseItem) *wire.Error {
	switch item.Type {
	case "", "message":
		text, err := contentText(item.Content)
		if err != nil {
			return err
		}
		addMessage(c, prompt.Message{Role: item.Role, Text: text})
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

// Job implements api.Request.
func (q *Responses) Job(s api.Settings) (api.Job, *wire.Error) {
	if q.PreviousResponseID != "" {
		return api.Job{}, UnknownResponse(q.PreviousResponseID)
	}
	conversation, err := q.conversation()
	if err != nil {
		return api.Job{}, err
	}
	t := api.ChatTask(s.Tokenizer, api.Sampling{
		Model: q.Model, MaxTokens: q.MaxOutputTokens, Priority: q.Priority, CacheSalt: q.CacheSalt, IgnoreEOS: q.IgnoreEOS,
	}, conversation)
	return api.Job{Tasks: []api.Task{t}, Stream: q.Stream, Prefix: "resp_"}, nil
}

// UnknownResponse answers every question for an earlier response: nothing is
// stored, as in vLLM without VLLM_ENABLE_RESPONSES_API_STORE.
func UnknownResponse(id string) *wire.Error {
	return &wire.Error{
		Status: http.StatusNotFound, Type: "invalid_request_error", Param: "response_id",
		Message: fmt.Sprintf("Response with id '%s' not found.", id),
	}
}

// Reply implements api.Request.
func (q *Responses) Reply(h api.Head) api.Reply { return &responsesReply{Head: h, request: q} }
