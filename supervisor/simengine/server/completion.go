package server

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

type completionRequest struct {
	sampling
	Prompt json.RawMessage `json:"prompt"`
	Echo   bool            `json:"echo"`
}

// defaultCompletionTokens is OpenAI's default for max_tokens on this API.
const defaultCompletionTokens = 16

// inputs reads a string, a list of strings, a list of token ids or a list of
// such lists, and returns each prompt's tokens and text.
func (s *Server) inputs(raw json.RawMessage, field string) (prompts [][]core.Token, texts []string, failure *apiError) {
	var text string
	var list []string
	var ids []core.Token
	var lists [][]core.Token
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil, emptyInput(field)
	case json.Unmarshal(raw, &text) == nil:
		list = []string{text}
	case json.Unmarshal(raw, &ids) == nil && len(ids) > 0:
		lists = [][]core.Token{ids}
	case json.Unmarshal(raw, &list) == nil:
	case json.Unmarshal(raw, &lists) == nil:
	default:
		return nil, nil, badRequest(field, "%s must be a string, a list of strings, a list of token ids or a list of such lists.", field)
	}
	for _, text := range list {
		prompts, texts = append(prompts, s.opts.Tokenizer.Append(nil, text)), append(texts, text)
	}
	for _, ids := range lists {
		text, err := s.opts.Tokenizer.Decode(ids)
		if err != nil {
			return nil, nil, badRequest(field, "%v", err)
		}
		prompts, texts = append(prompts, ids), append(texts, text)
	}
	for _, p := range prompts {
		if len(p) == 0 {
			return nil, nil, emptyInput(field)
		}
	}
	if len(prompts) == 0 {
		return nil, nil, emptyInput(field)
	}
	return prompts, texts, nil
}

func emptyInput(field string) *apiError {
	return badRequest(field, "Either prompt or prompt_embeds must be provided and non-empty. (parameter=%s)", field)
}

func (s *Server) completion(w http.ResponseWriter, r *http.Request) {
	var q completionRequest
	if err := readBody(w, r, &q); err != nil {
		failOpenAI(w, err)
		return
	}
	prompts, texts, apiErr := s.inputs(q.Prompt, "prompt")
	if apiErr == nil && len(prompts) > 1 && q.Stream {
		apiErr = badRequest("prompt", "%s engine: streaming takes one prompt.", prompt.Label)
	}
	if apiErr != nil {
		failOpenAI(w, apiErr)
		return
	}
	if q.MaxTokens == nil {
		limit := defaultCompletionTokens
		q.MaxTokens = &limit
	}
	reply := completionReply{
		chatReply: chatReply{id: s.newID("cmpl-", r), created: time.Now().Unix(), model: s.modelName(), server: s},
	}
	var trackers []*tracker
	var cut prompt.Cut
	for i := range prompts {
		script, _ := prompt.ParseScript(texts[i])
		g, err := s.start(r, task{sampling: q.sampling, prompt: prompts[i], script: script})
		if err != nil {
			failStart(w, err, failOpenAI)
			return
		}
		defer g.close()
		cut = s.faults.Cut(script.Cut)
		if q.Echo {
			reply.echo = append(reply.echo, texts[i])
		}
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
		trackers = append(trackers, result)
	}
	writeAnswer(w, r, cut, reply.full(trackers))
}

type completionReply struct {
	chatReply
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
	ID                string             `json:"id"`
	Object            string             `json:"object"`
	Created           int64              `json:"created"`
	Model             string             `json:"model"`
	Choices           []completionChoice `json:"choices"`
	ServiceTier       *string            `json:"service_tier"`
	SystemFingerprint *string            `json:"system_fingerprint"`
	Usage             usageInfo          `json:"usage"`
	KVTransferParams  *string            `json:"kv_transfer_params"`
	ECTransferParams  *string            `json:"ec_transfer_params"`
	Metrics           *string            `json:"metrics"`
}

// completionDetails has no count of created tokens on this API.
func (s *Server) completionDetails(p core.Prefill) *promptDetails {
	if !s.opts.PromptTokensDetails {
		return nil
	}
	return &promptDetails{Cached: p.Cached()}
}

func (c *completionReply) full(trackers []*tracker) completionOut {
	out := completionOut{
		ID: c.id, Object: "text_completion", Created: c.created, Model: c.model,
		SystemFingerprint: c.server.fingerprint(),
	}
	prompts, generated := 0, 0
	for n, t := range trackers {
		prompts += t.generation.prompt
		generated += t.tokens()
		for i := range t.choices {
			p := &t.choices[i]
			text := p.text.String()
			if c.echo != nil {
				text = c.echo[n] + text
			}
			out.Choices = append(out.Choices, completionChoice{Index: len(out.Choices), Text: text, FinishReason: &p.reason, StopReason: p.stop})
		}
	}
	out.Usage = c.server.usage(prompts, generated, c.server.completionDetails(trackers[len(trackers)-1].prefill()))
	return out
}

type completionChunk struct {
	ID                string                  `json:"id"`
	Object            string                  `json:"object"`
	Created           int64                   `json:"created"`
	Model             string                  `json:"model"`
	Choices           []completionChunkChoice `json:"choices"`
	Usage             *streamUsage            `json:"usage,omitempty"`
	SystemFingerprint *string                 `json:"system_fingerprint,omitempty"`
}

type completionChunkChoice struct {
	Index          int     `json:"index"`
	Text           string  `json:"text"`
	Logprobs       null    `json:"logprobs"`
	FinishReason   *string `json:"finish_reason"`
	StopReason     *string `json:"stop_reason"`
	PromptTokenIDs null    `json:"prompt_token_ids"`
	TokenIDs       null    `json:"token_ids"`
}

func (c *completionReply) chunk(choices ...completionChunkChoice) completionChunk {
	if choices == nil {
		choices = []completionChunkChoice{}
	}
	return completionChunk{ID: c.id, Object: "text_completion", Created: c.created, Model: c.model, Choices: choices}
}

func (c *completionReply) stream(e *eventStream, g *generation) {
	t := track(g)
	err := t.follow(e.request, nil, func(u update, pieces []prompt.Piece) error { return c.sendToken(e, t, u, pieces) })
	if err == nil && c.usage {
		chunk := c.chunk()
		chunk.Usage = c.server.usage(g.prompt, t.tokens(), c.server.completionDetails(t.prefill())).stream()
		chunk.SystemFingerprint = c.server.fingerprint()
		err = e.send("", encode(chunk))
	}
	e.finish(err)
}

func (c *completionReply) sendToken(e *eventStream, t *tracker, u update, pieces []prompt.Piece) error {
	p := &t.choices[u.choice]
	if len(pieces) == 0 && p.reason == "" {
		return nil
	}
	choice := completionChunkChoice{Index: u.choice}
	if p.tokens == 1 && c.echo != nil {
		choice.Text = c.echo[0]
	}
	for _, piece := range pieces {
		choice.Text += piece.Text
	}
	if p.reason != "" {
		choice.FinishReason, choice.StopReason = &p.reason, p.stop
	}
	chunk := c.chunk(choice)
	if p.reason != "" && !c.usage {
		chunk.SystemFingerprint = c.server.fingerprint()
	}
	if c.continuous {
		chunk.Usage = c.server.usage(t.generation.prompt, p.tokens, nil).stream()
	}
	return e.send("", encode(chunk))
}
