package router

import (
	"net/http"
	"strconv"
	"time"

	"github.com/lm-warden/warden/router/deployment"
)

// priorityHeader is vLLM's (0.28 and newer): under --scheduling-policy priority
// it orders the engine's waiting requests, the lowest first. A client's own is
// never passed on (gate.Forwarded): it could put itself before all others.
const priorityHeader = "X-Vllm-Priority"

// A turn's priority is when it arrived, put off by what it costs: one second for
// each passTokens that its engine still has to compute. So a turn with a cached
// prefix overtakes cold ones (12,000 tokens) that came up to half a minute before
// it, and none waits for ever. With the cost alone turns starve: SIMULATED,
// affinity, 32 sessions on the reference machine, the longest session took 996 s
// instead of 265 s while p50, p95 and turns/min looked better than ever; with the
// arrival it is 253 s and nothing else moves by more than 2 %
// (`go run ./cmd/ladder -settings -only priority`).
const (
	passTokens   = 400
	priorityStep = 100 * time.Millisecond
)

// EnginePriority orders turns inside an engine, the lowest first: by their
// arrival, counted from any fixed moment, and by the tokens of the prompt that
// its prefix cache is not expected to hold.
func EnginePriority(arrived time.Duration, uncached int) int {
	cost := time.Duration(max(uncached, 0)) * time.Second / passTokens
	return int((max(arrived, 0) + cost) / priorityStep)
}

// prioritise tells an engine that orders by it when the turn came and what it
// will cost.
func (x *exchange) prioritise(h http.Header, p *deployment.Place) {
	if x.turn.Model().EnginePriority {
		h.Set(priorityHeader, strconv.Itoa(EnginePriority(x.turn.Arrived.Sub(x.router.started), p.ExpectedUncached)))
	}
}
