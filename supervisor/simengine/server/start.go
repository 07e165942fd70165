package server

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/lm-warden/warden/supervisor/simengine/fault"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// task is one that has been checked.
type task struct {
	api.Task
	limit    int // tokens that the answer may have
	priority int
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
// The error is a *wire.Error, or errGone.
func (s *Server) start(r *http.Request, asked api.Task) (*generation, error) {
	t := task{Task: asked, priority: asked.Priority}
	if t.Script.Error != 0 {
		return nil, wire.Scripted(t.Script.Error)
	}
	if status := s.faults.DrawError(); status != 0 {
		return nil, wire.Scripted(status)
	}
	if err := s.check(r, &t); err != nil {
		return nil, err
	}
	if limit := s.opts.MaxQueuedRequests; limit > 0 && s.engine.inFlight() >= limit {
		s.metrics.Rejected()
		return nil, &wire.Error{
			Status: http.StatusServiceUnavailable, Type: "ServiceUnavailableError",
			Message: fmt.Sprintf("The server is overloaded: %d requests are in flight, the limit is %d.", s.engine.inFlight(), limit),
		}
	}
	if !fault.Sleep(r.Context(), t.Script.Delay+s.Config().Cost.Frontend) {
		return nil, errGone
	}
	n := 1
	if t.N != nil {
		n = *t.N
	}
	answers := make([]prompt.Answer, n)
	for i := range answers {
		answers[i] = s.writer.Write(t.Prompt, prompt.Wish{
			Script: t.Script, Calls: t.Calls, MaxTokens: t.limit, MinTokens: t.MinTokens,
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
func (s *Server) check(r *http.Request, t *task) *wire.Error {
	if err := s.settings.CheckModel(t.Model); err != nil {
		return err
	}
	if t.N != nil && *t.N < 1 {
		return wire.BadRequest("", "n must be at least 1, got %d.", *t.N)
	}
	if t.N != nil && *t.N > maxChoices {
		return wire.BadRequest("", "n must be at most %d, got %d.", maxChoices, *t.N)
	}
	if len(t.Stop) > maxStops {
		return wire.Invalid(wire.Problem{
			Kind: "too_long", Loc: "body.stop",
			Text: fmt.Sprintf("List should have at most %d items after validation, not %d", maxStops, len(t.Stop)),
		})
	}
	if rank := r.Header.Get("X-Data-Parallel-Rank"); rank != "" && rank != "0" {
		return wire.BadRequest("", "data_parallel_rank %s is out of range [0, 1).", rank)
	}
	if header := r.Header.Get("X-Vllm-Priority"); header != "" {
		value, err := strconv.Atoi(header)
		if err != nil {
			return wire.BadRequest("priority", "X-Vllm-Priority %q is not an integer.", header)
		}
		t.priority = value
	}
	return s.checkLength(t)
}

// checkLength is get_max_tokens and the renderer's checks: 0.32 shortens an
// answer that does not fit the context, older versions refuse it. The real
// tokenizer stops one token past the limit, so a prompt's length is not told.
func (s *Server) checkLength(t *task) *wire.Error {
	limit, input := s.Config().MaxModelLen, len(t.Prompt)
	param := cmp.Or(t.LimitName, "max_tokens")
	if input > limit {
		return wire.BadValue("input_tokens", limit+1, "This model's maximum context length is %d tokens. However, your prompt contains at least %d input tokens, "+
			"which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.", limit, limit+1)
	}
	asked := limit - input
	if t.MaxTokens != nil {
		asked = *t.MaxTokens
	}
	switch {
	case asked > limit:
		return wire.BadValue(param, asked, "%s=%d cannot be greater than max_model_len=%d. Please request fewer output tokens.", param, asked, limit)
	case s.opts.Dialect == V026 && asked > limit-input:
		return wire.BadRequest(param, "This model's maximum context length is %d tokens. However, you requested %d output tokens and your prompt contains at least %d input tokens, "+
			"for a total of at least %d tokens. Please reduce the length of the input prompt or the number of requested output tokens.", limit, asked, input, input+asked)
	}
	t.limit = min(limit-input, asked)
	if t.limit < 1 {
		return wire.BadValue("max_tokens", t.limit, "max_tokens must be at least 1, got %d.", t.limit)
	}
	return nil
}
