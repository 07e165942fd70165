package openai

import (
	"encoding/json"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Completion is the body of /v1/completions.
type Completion struct {
	api.Sampling
	Prompt json.RawMessage `json:"prompt"`
	Echo   bool            `json:"echo"`

	texts []string // of the prompts, set by Job
}

// defaultCompletionTokens is OpenAI's default for max_tokens on this API.
const defaultCompletionTokens = 16

// Job implements api.Request.
func (q *Completion) Job(s api.Settings) (api.Job, *wire.Error) {
	prompts, texts, err := inputs(s.Tokenizer, q.Prompt, "prompt")
	if err == nil && len(prompts) > 1 && q.Stream {
		err = wire.BadRequest("prompt", "%s engine: streaming takes one prompt.", prompt.Label)
	}
	if err != nil {
		return api.Job{}, err
	}
	if q.MaxTokens == nil {
		limit := defaultCompletionTokens
		q.MaxTokens = &limit
	}
	q.texts = texts
	job := api.Job{Stream: q.Stream, Prefix: "cmpl-"}
	for i, tokens := range prompts {
		script, _ := prompt.ParseScript(texts[i])
		job.Tasks = append(job.Tasks, api.Task{Sampling: q.Sampling, Prompt: tokens, Script: script})
	}
	return job, nil
}

// Reply implements api.Request.
func (q *Completion) Reply(h api.Head) api.Reply {
	r := &completionReply{reply: newReply(h, q.StreamOptions, h.Received)}
	if q.Echo {
		r.echo = q.texts
	}
	return r
}

type completionReply struct {
	reply
	echo []string // each prompt's text, where the answer begins with it
}

type completionChoice struct {
	Index          int          `json:"index"`
	Text           string       `json:"text"`
	Logprobs       *string      `json:"logprobs"`
	FinishReason   *string      `json:"finish_reason"`
	StopReason     *string      `json:"stop_reason"`
	TokenIDs       []core.Token `json:"token_ids"`
	PromptLogprobs *string      `json:"prompt_logprobs"`
	PromptTokenIDs []core.Token `json:"prompt_token_ids"`
	Experts        *string      `json:"routed_experts"`
}

type completionOut struct {
	completionHead[completionChoice]
	KVTransferParams *string `json:"kv_transfer_params"`
	ECTransferParams *string `json:"ec_transfer_params"`
	Metrics          *string `json:"metrics"`
}

// Whole implements api.Reply.
func (r *completionReply) Whole(answers []*api.Answer) any {
	var choices []completionChoice
	for n, a := range answers {
		for i := range a.Choices {
			c := &a.Choices[i]
			text, _ := c.Text()
			if r.echo != nil {
				text = r.echo[n] + text
			}
			choices = append(choices, completionChoice{Index: len(choices), Text: text, FinishReason: &c.Reason, StopReason: c.Stop})
		}
	}
	return completionOut{completionHead: wholeHead(&r.reply, "text_completion", choices, answers)}
}

type completionChunkChoice struct {
	Index          int       `json:"index"`
	Text           string    `json:"text"`
	Logprobs       wire.Null `json:"logprobs"`
	FinishReason   *string   `json:"finish_reason"`
	StopReason     *string   `json:"stop_reason"`
	PromptTokenIDs wire.Null `json:"prompt_token_ids"`
	TokenIDs       wire.Null `json:"token_ids"`
}

// Stream implements api.Reply.
func (r *completionReply) Stream(e *wire.Events, a *api.Answer) api.Stream {
	return &stream[completionChunkChoice]{reply: &r.reply, events: e, answer: a, object: "text_completion", token: r.chunkChoice}
}

func (r *completionReply) chunkChoice(index int, c *api.Choice, pieces []prompt.Piece) completionChunkChoice {
	out := completionChunkChoice{Index: index}
	if c.Tokens == 1 && r.echo != nil {
		out.Text = r.echo[0]
	}
	for _, piece := range pieces {
		out.Text += piece.Text
	}
	if c.Reason != "" {
		out.FinishReason, out.StopReason = &c.Reason, c.Stop
	}
	return out
}
