package openai

import "github.com/lm-warden/warden/supervisor/simengine/server/api"

// reply is what the replies of chats and completions have in common.
type reply struct {
	api.Head
	created int64
	// usage says that a stream ends with a usage, continuous that each event has one.
	usage, continuous bool
	// countsCreated says that the usage tells the tokens new in the cache: in
	// chats only.
	countsCreated bool
}

func newReply(h api.Head, o api.StreamOptions, created int64) reply {
	r := reply{Head: h, created: created}
	r.usage = o.IncludeUsage || h.ForceIncludeUsage
	r.continuous = r.usage && (o.ContinuousUsageStats || h.ForceIncludeUsage)
	return r
}

// completionHead begins a whole chat or text completion; C is its choice.
type completionHead[C any] struct {
	ID                string    `json:"id"`
	Object            string    `json:"object"`
	Created           int64     `json:"created"`
	Model             string    `json:"model"`
	Choices           []C       `json:"choices"`
	ServiceTier       *string   `json:"service_tier"`
	SystemFingerprint *string   `json:"system_fingerprint"`
	Usage             usageInfo `json:"usage"`
}

// wholeHead counts the tokens over all answers; how many were cached is told of
// the last one only, as in vLLM.
func wholeHead[C any](r *reply, object string, choices []C, answers []*api.Answer) completionHead[C] {
	prompts, generated := 0, 0
	for _, a := range answers {
		prompts += a.Prompt
		generated += a.Tokens()
	}
	total := usage(prompts, generated)
	total.Details = r.details(answers[len(answers)-1].Prefill())
	return completionHead[C]{
		ID: r.ID, Object: object, Created: r.created, Model: r.Model(), Choices: choices,
		SystemFingerprint: r.Fingerprint, Usage: total,
	}
}
