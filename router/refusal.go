package router

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

// refusal is why a request gets no answer from an engine.
type refusal struct {
	dialect.Error
	retryAfter time.Duration // 0: trying again is of no use
	allow      string        // of a 405
	close      bool          // the connection cannot be used further
}

// forbid is a refusal that trying again will not change.
func forbid(status int, message string) *refusal {
	return &refusal{Error: dialect.Error{Status: status, Message: message}}
}

// Clients differ in what they do with a refusal (measured): Codex repeats a
// 503 thirty times in 25 s whatever it says, and a 429 six times at the pace
// asked for; Claude Code gives up at once above 60 s. So everything that
// passes by itself is a 429 with 1 to 60 s, and 503 stays for what does not.
func rejected(a placement.Reject, model string) refusal {
	status, message := http.StatusTooManyRequests, ""
	switch a.Why {
	case placement.WhyStarting:
		message = "the replicas of " + model + " are still starting"
	case placement.WhyTimeout, placement.WhyFull, placement.WhyCache:
		message = "all replicas of " + model + " are busy and the request has waited as long as it may"
	case whyResent:
		message = "the same request was sent again; this one was ended for the later one"
	case placement.WhyQueueFull:
		message = "too many requests wait for " + model
	case whyTooMany:
		message = "warden has as many requests as its limit of open files allows: raise it (ulimit -n) or send fewer at once"
	case placement.WhyPinnedGone:
		return refusal{Error: dialect.Error{Status: http.StatusNotFound, Code: "previous_response_not_found",
			Message: "the stored response is gone: its replica has restarted; send the whole history instead"}}
	case deployment.WhyNoReplica:
		status = http.StatusServiceUnavailable
		message = "no replica of " + model + " is running and none is starting; `warden status` says why"
	case deployment.WhyClosed:
		return refusal{Error: dialect.Error{Status: http.StatusServiceUnavailable, Code: string(a.Why),
			Message: model + " is being shut down"}, retryAfter: closedRetry, close: true}
	default: // WhyFailed, WhyRetrying
		status = http.StatusServiceUnavailable
		message = "every replica of " + model + " that was tried could not be reached or broke off before it answered"
	}
	return refusal{
		Error:      dialect.Error{Status: status, Code: string(a.Why), Message: message},
		retryAfter: min(max(a.RetryAfter, time.Second), time.Minute),
	}
}

// Refusals of the router's own, beside those of deployment and placement.
const (
	whyResent  placement.Why = "resent"
	whyTooMany placement.Why = "too_many_requests"
)

// closedRetry is when to ask again after a shutdown: a service manager that
// restarts warden does so within seconds.
const closedRetry = 5 * time.Second

// refuse answers with r in the shape of the API asked.
func (x *exchange) refuse(r refusal) {
	x.record.Cause, x.record.KeyID = record.CauseOf(r.Code, r.Status), x.keyID
	h := x.w.Header()
	if r.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int((r.retryAfter+time.Second-1)/time.Second)))
	}
	if r.allow != "" {
		h.Set("Allow", r.allow)
	}
	if r.close {
		h.Set("Connection", "close")
	}
	x.answer(r.Status, x.api.ErrorBody(r.Error, x.requestID))
	if x.turn == nil { // otherwise its end counts it
		x.router.metrics.Refused(r.Status)
		x.record.Ended = time.Now()
		x.report()
	}
}

func (x *exchange) answerJSON(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		x.refuse(*forbid(http.StatusInternalServerError, "cannot encode the answer: "+err.Error()))
		return
	}
	x.answer(status, body)
}

// answer sends a whole body: JSON, unless the header says otherwise already.
func (x *exchange) answer(status int, body []byte) {
	x.record.Status = status
	h := x.w.Header()
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Request-Id", x.requestID)
	x.deadlines.BeginWrite()
	defer x.deadlines.EndWrite()
	x.w.WriteHeader(status)
	if x.req.Method != http.MethodHead {
		// A client that has left shows up in its context.
		_, _ = x.w.Write(body)
	}
}
