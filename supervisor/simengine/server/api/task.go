package api

import (
	"encoding/json"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// Sampling are the fields that the bodies of the generating APIs share.
type Sampling struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	StreamOptions StreamOptions `json:"stream_options"`
	MaxTokens     *int          `json:"max_tokens"`
	MinTokens     int           `json:"min_tokens"`
	IgnoreEOS     bool          `json:"ignore_eos"`
	Stop          StringList    `json:"stop"`
	Allowed       []core.Token  `json:"allowed_token_ids"`
	N             *int          `json:"n"`
	Priority      int           `json:"priority"`
	CacheSalt     string        `json:"cache_salt"`
}

// StreamOptions say whether a stream counts its tokens.
type StreamOptions struct {
	IncludeUsage         bool `json:"include_usage"`
	ContinuousUsageStats bool `json:"continuous_usage_stats"`
}

// StringList is a string or a list of strings.
type StringList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *StringList) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*l = nil
		if string(raw) != "null" {
			*l = StringList{one}
		}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(l))
}

// Task is one prompt as the engine sees it, whatever API it came through.
type Task struct {
	Sampling
	Prompt []core.Token
	Script prompt.Script
	Calls  []prompt.Call // tool calls to answer with
	// LimitName is what errors call the limit on the answer; "" means max_tokens.
	LimitName string
}

// ChatTask makes a task of a conversation.
func ChatTask(t prompt.Tokenizer, q Sampling, c prompt.Conversation) Task {
	script, calls := c.Script()
	return Task{Sampling: q, Prompt: prompt.Render(t, c), Script: script, Calls: calls}
}
