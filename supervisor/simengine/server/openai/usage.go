package openai

import (
	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

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
	OutputDetails    wire.Null      `json:"completion_tokens_details,omitempty"`
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

func usage(prompt, generated int) usageInfo {
	return usageInfo{PromptTokens: prompt, CompletionTokens: generated, TotalTokens: prompt + generated}
}

// details are the cached tokens of a prompt; nil without the flag.
func (r *reply) details(p core.Prefill) *promptDetails {
	if !r.PromptTokensDetails {
		return nil
	}
	out := &promptDetails{Cached: p.Cached()}
	if r.countsCreated {
		out.Created = &p.Created
	}
	return out
}
