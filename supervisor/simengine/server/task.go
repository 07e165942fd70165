package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// sampling are the body fields that all generating APIs share.
type sampling struct {
	Model         string        `json:"model"`
	Stream        bool          `json:"stream"`
	StreamOptions streamOptions `json:"stream_options"`
	MaxTokens     *int          `json:"max_tokens"`
	MinTokens     int           `json:"min_tokens"`
	IgnoreEOS     bool          `json:"ignore_eos"`
	Stop          stringList    `json:"stop"`
	Allowed       []core.Token  `json:"allowed_token_ids"`
	N             *int          `json:"n"`
	Priority      int           `json:"priority"`
	CacheSalt     string        `json:"cache_salt"`
}

type streamOptions struct {
	IncludeUsage         bool `json:"include_usage"`
	ContinuousUsageStats bool `json:"continuous_usage_stats"`
}

// stringList is a string or a list of strings.
type stringList []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *stringList) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*l = nil
		if string(raw) != "null" {
			*l = stringList{one}
		}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(l))
}

// task is a request as the engine sees it, whatever API it came through.
type task struct {
	sampling
	prompt []core.Token
	script prompt.Script
	calls  []prompt.Call
	// maxParam is what errors call the limit; "" means max_tokens.
	maxParam string
	// limit bounds the answer's tokens; set by check.
	limit    int
	priority int
	salt     string
}

// maxChoices and maxStops are vLLM's limits on n and on stop strings
// (VLLM_MAX_N_SEQUENCES is far above what a test needs).
const (
	maxChoices = 64
	maxStops   = 4
)

// errGone means that the client has left; there is nobody to answer.
var errGone = errors.New("client is gone")

// start checks a task, waits what it has to wait and gives it to the engine.
// The error is an *apiError, or errGone.
func (s *Server) start(r *http.Request, t task) (*generation, error) {
	if t.script.Error != 0 {
		return nil, scriptedError(t.script.Error)
	}
	if status := s.faults.DrawError(); status != 0 {
		return nil, scriptedError(status)
	}
	if err := s.check(r, &t); err != nil {
		return nil, err
	}
	if limit := s.opts.MaxQueuedRequests; limit > 0 && s.engine.inFlight() >= limit {
		s.metrics.Rejected()
		return nil, &apiError{
			Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError",
			Message: fmt.Sprintf("The server is overloaded: %d requests are in flight, the limit is %d.", s.engine.inFlight(), limit),
		}
	}
	if !sleep(r.Context(), t.script.Delay+s.Config().Cost.Frontend) {
		return nil, errGone
	}
	n := 1
	if t.N != nil {
		n = *t.N
	}
	answers := make([]prompt.Answer, n)
	for i := range answers {
		answers[i] = s.writer.Write(t.prompt, prompt.Wish{
			Script: t.script, Calls: t.calls, MaxTokens: t.limit, MinTokens: t.MinTokens,
			IgnoreEOS: t.IgnoreEOS, Stop: t.Stop, Allowed: t.Allowed, Choice: i,
		})
	}
	g, apiErr := s.engine.submit(t, answers)
	if apiErr != nil {
		return nil, apiErr
	}
	return g, nil
}

// check applies vLLM's limits and headers.
func (s *Server) check(r *http.Request, t *task) *apiError {
	if err := s.checkModel(t.Model); err != nil {
		return err
	}
	if t.N != nil && *t.N < 1 {
		return badRequest("", "n must be at least 1, got %d.", *t.N)
	}
	if t.N != nil && *t.N > maxChoices {
		return badRequest("", "n must be at most %d, got %d.", maxChoices, *t.N)
	}
	if len(t.Stop) > maxStops {
		return invalid(problem{"too_long", "body.stop", fmt.Sprintf("List should have at most %d items after validation, not %d", maxStops, len(t.Stop))})
	}
	if rank := r.Header.Get("X-Data-Parallel-Rank"); rank != "" && rank != "0" {
		return badRequest("", "data_parallel_rank %s is out of range [0, 1).", rank)
	}
	t.priority, t.salt = t.Priority, t.CacheSalt
	if header := r.Header.Get("X-Vllm-Priority"); header != "" {
		value, err := strconv.Atoi(header)
		if err != nil {
			return badRequest("priority", "X-Vllm-Priority %q is not an integer.", header)
		}
		t.priority = value
	}
	return s.checkLength(t)
}

// checkLength is get_max_tokens and the renderer's checks: 0.32 shortens an
// answer that does not fit the context, older versions refuse it. The real
// tokenizer stops one token past the limit, so a prompt's length is not told.
func (s *Server) checkLength(t *task) *apiError {
	limit, input := s.Config().MaxModelLen, len(t.prompt)
	param := cmp.Or(t.maxParam, "max_tokens")
	if input > limit {
		return badValue("input_tokens", limit+1, "This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.", limit, limit+1)
	}
	asked := limit - input
	if t.MaxTokens != nil {
		asked = *t.MaxTokens
	}
	switch {
	case asked > limit:
		return badValue(param, asked, "%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", param, asked, limit)
	case s.opts.Dialect == V026 && asked > limit-input:
		return badRequest(param, "This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, "+
			"for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens.", limit, asked, input, input+asked)
	}
	t.limit = min(limit-input, asked)
	if t.limit < 1 {
		return badValue("max_tokens", t.limit, "max_tokens must be at least 1, got %d.", t.limit)
	}
	return nil
}

func (s *Server) checkModel(name string) *apiError {
	if name == "" || slices.Contains(s.opts.Served, name) {
		return nil
	}
	message := fmt.Sprintf("The model `%s` does not exist.", name)
	if s.opts.Dialect == V032 {
		message += " Valid aliases: " + strings.Join(s.opts.Served, ", ") + "."
	}
	return &apiError{Status: http.StatusNotFound, Type: "NotFoundError", Param: "model", Message: message}
}

// modelName is what replies call the model.
func (s *Server) modelName() string { return s.opts.Served[0] }

// progress follows one choice through its updates.
type progress struct {
	text      strings.Builder
	arguments []string // per tool call so far
	tokens    int
	prefill   core.Prefill
	reason    string // finish reason, once it has one
	stop      *string
}

// apply takes one update in and returns what becomes visible with it.
func (p *progress) apply(c *choice, ev core.TokenEvent) []prompt.Piece {
	if ev.Prefill != nil {
		p.prefill = *ev.Prefill
	}
	p.tokens++
	pieces := c.answer.Pieces[ev.Index]
	for _, piece := range pieces {
		switch piece.Kind {
		case prompt.Content:
			p.text.WriteString(piece.Text)
		case prompt.CallStart:
			p.arguments = append(p.arguments, "")
		case prompt.CallArguments:
			p.arguments[piece.Call] += piece.Text
		}
	}
	if ev.Reason != core.Unfinished {
		p.reason = string(ev.Reason)
		if ev.Reason == core.Stop && c.answer.StoppedBy != "" {
			p.stop = &c.answer.StoppedBy
		}
	}
	return pieces
}

// tracker holds the progress of all choices of a generation.
type tracker struct {
	generation *generation
	choices    []progress
}

func track(g *generation) *tracker {
	return &tracker{generation: g, choices: make([]progress, len(g.choices))}
}

// collect waits for the whole generation: what a request without streaming
// does.
func (s *Server) collect(r *http.Request, g *generation) (*tracker, error) {
	t := track(g)
	return t, t.follow(r, nil, func(update, []prompt.Piece) error { return nil })
}

// follow hands each token and what becomes visible with it to each, as they
// come; begin, if any, runs before the first. It returns nil when the
// generation is complete, an *apiError when the engine failed, or errGone.
func (t *tracker) follow(r *http.Request, begin func() error, each func(update, []prompt.Piece) error) error {
	for {
		updates, err := t.generation.next(r.Context())
		if err != nil {
			return ended(err)
		}
		if begin != nil {
			if err := begin(); err != nil {
				return err
			}
			begin = nil
		}
		for _, u := range updates {
			pieces := t.choices[u.choice].apply(t.generation.choices[u.choice], u.event)
			if err := each(u, pieces); err != nil {
				return err
			}
		}
	}
}

// tokens is the number of tokens generated over all choices.
func (t *tracker) tokens() int {
	n := 0
	for i := range t.choices {
		n += t.choices[i].tokens
	}
	return n
}

// prefill is the first choice's: vLLM reports one per request.
func (t *tracker) prefill() core.Prefill { return t.choices[0].prefill }
