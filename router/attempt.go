package router

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/gate"
	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/metrics"
	"github.com/lm-warden/warden/router/record"
)

// maxErrorBody bounds what is read of an engine's error. vLLM has been seen to
// repeat a request of a few KB as 114 MB of error (vllm-project/vllm#49239).
const maxErrorBody = 64 << 10

// answer is an engine's whole answer, kept because it is short.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// attempt sends the request to one replica and copies the answer back. again
// says that it failed there and that the client has seen nothing of it, so
// that it may be tried on another one.
func (x *exchange) attempt(p *deployment.Place) (again bool) {
	resp, err := p.Up.Link.Send(x.ctx, x.outgoing(p))
	if err != nil {
		return x.brokeOff(p, fmt.Errorf("replica %s: %w", p.Up.ID, err))
	}
	defer x.undo(x.depth())
	x.later(resp.Close)
	if resp.Status >= 400 {
		return x.engineRefused(p, resp)
	}
	return x.relay(p, resp)
}

// outgoing builds the request for one replica. The path is the one from the
// list of routes, the query the client's own.
func (x *exchange) outgoing(p *deployment.Place) *link.Request {
	// HTTP/2 lets white space into a query, which would end it here.
	target := url.URL{Path: x.req.URL.Path, RawQuery: strings.ReplaceAll(x.req.URL.RawQuery, " ", "%20")}
	req := &link.Request{
		Method: x.req.Method,
		Target: target.RequestURI(),
		Header: gate.Forwarded(x.req.Header),
		Body:   x.parts,
	}
	req.Header.Set("X-Request-Id", x.requestID)
	x.tellTrace(req.Header)
	if !x.turn.Key.IsZero() {
		req.Header.Set("X-Session-Id", x.turn.Key.String())
	}
	x.prioritise(req.Header, p)
	return req
}

// brokeOff handles a connection that failed before anything was sent to the
// client.
func (x *exchange) brokeOff(p *deployment.Place, err error) (again bool) {
	if x.ctx.Err() != nil {
		x.cut()
		return false
	}
	if link.Own(err) {
		return x.exhausted(err)
	}
	x.turn.Failed(p.Up, err)
	x.router.metrics.Retried(x.record.Model, metrics.RetryConnection)
	x.router.opts.Log.Warn("replica broke off before its first byte", "replica", p.Up.ID, "model", x.record.Model,
		"session", x.turn.Key.Short(), "err", err)
	return true
}

// exhausted answers a request that warden itself has no means for: no replica is
// to blame, and none is tried in vain.
func (x *exchange) exhausted(err error) (again bool) {
	x.record.Failed, x.record.Replica, x.record.Generation = true, "", 0
	x.router.metrics.Retried(x.record.Model, metrics.RetryOwnLimit)
	x.router.opts.Log.Warn("warden has run into a limit of its own and cannot reach its replicas", "model", x.record.Model, "err", err)
	limit, _ := errors.AsType[syscall.Errno](err)
	x.refuse(refusal{Error: dialect.Error{Status: http.StatusServiceUnavailable, Code: record.CauseOwnLimit,
		Message: fmt.Sprintf("warden cannot reach its replicas, which are not at fault: %v; raise its limits "+
			"(ulimit -n, memory, fs.epoll.max_user_watches) or send fewer requests at once", limit)},
		retryAfter: time.Second})
	return false
}

// engineRefused handles an answer with an error status. Most of them are about
// the request itself and are passed on in the engine's words, which clients
// match. A dead engine, and one that is full, are tried elsewhere.
func (x *exchange) engineRefused(p *deployment.Place, resp *link.Answer) (again bool) {
	body, err := io.ReadAll(io.LimitReader(resp, maxErrorBody+1))
	if err != nil {
		return x.brokeOff(p, fmt.Errorf("replica %s: %w", p.Up.ID, err))
	}
	a := &answer{resp.Status, resp.Header, body}
	switch {
	case x.edit.FoldSystemTurns && resp.Status == http.StatusBadRequest && dialect.RolesMustAlternate(body):
		return x.unfold(p)
	case resp.Status >= 500 && dialect.EngineDead(body):
		return x.brokeOff(p, p.Up.Dead())
	case resp.Status == http.StatusServiceUnavailable:
		// Back-pressure (--max-num-queued-reqs) or the beginning of a
		// shutdown; no sign of a fault.
		x.refusedBy = a
		x.router.metrics.Retried(x.record.Model, metrics.RetryEngineFull)
		return true
	}
	x.pass(a)
	return false
}

// pass sends an engine's error on.
func (x *exchange) pass(a *answer) {
	body := a.body
	if len(body) > maxErrorBody {
		start := bytes.ToValidUTF8(body[:1024], nil)
		body = x.api.ErrorBody(dialect.Error{Status: a.status, Message: string(start) + " ... (shortened by warden)"}, x.requestID)
	}
	if a.status == http.StatusBadRequest && !x.turn.Model().ExactErrors {
		if reworded, ok := x.api.Overflow(body, x.turn.Estimate, x.requestID); ok {
			body = reworded
		}
	}
	gate.Returned(x.w.Header(), a.header)
	x.mark()
	x.record.Cause = record.CauseEngine
	x.answer(a.status, body)
}

// isEventStream reports whether an answer is a stream of events.
func isEventStream(resp *link.Answer) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}

// errCutShort: an engine closed a stream properly, but before its end marker.
var errCutShort = errors.New("the stream ended without its end marker")
