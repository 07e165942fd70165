package router

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lm-warden/warden/router/deadlines"
	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/gate"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/identity/scan"
	"github.com/lm-warden/warden/router/keys"
	"github.com/lm-warden/warden/router/payload"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

// exchange is one request and its answer, from the headers to the last byte.
// It belongs to the goroutine that serves the request, and once its stream has
// begun to one of its own (stream.go).
type exchange struct {
	router    *Router
	w         http.ResponseWriter
	deadlines *deadlines.Client
	req       *http.Request
	ctx       context.Context // ends with the client's connection or the Router
	requestID string
	api       dialect.API
	keyID     string    // whose request it is, in words that may be logged
	counted   *keys.Key // in flight for this one

	payload *payload.Payload
	parts   [][]byte // what an engine gets: pieces of the payload, and edits between them
	scan    *scan.Body
	who     *identity.Identity
	edit    scan.Edit // what warden changed in the body
	drop    func()    // ends the request for a later copy of it

	turn      *deployment.Turn
	committed bool // something of an engine's answer has been sent
	stream    *dialect.Stream
	refusedBy *answer // an engine's own "not now", in case all say so

	ends
	left  func()      // ends the request because its client has gone
	stays func() bool // ends net/http's watch for that; false: it has gone
	wire  *wire       // the client's connection, once it has been taken from net/http

	record Record
	traced func(Record) // ends the span; nil without one
}

// Record is one request, for access logs and traces.
type Record = record.Record

// newExchange wraps one request. Nothing here depends on its content.
func newExchange(r *Router, w http.ResponseWriter, req *http.Request) *exchange {
	x := &exchange{
		router: r, w: w, deadlines: deadlines.New(w, req, r.opts.IdleTimeout), req: req, ctx: req.Context(),
		requestID: gate.RequestID(req), api: shapeOf(req),
	}
	x.record = record.New(x.requestID, req.URL.Path, r.now())
	return x
}

// serveEngine is the path of every request that an engine answers.
func (r *Router) serveEngine(x *exchange) {
	x.trace()
	if why := r.enter(); why != "" {
		x.refuse(rejected(placement.Reject{Why: why}, "warden"))
		return
	}
	x.later(r.leave)
	// Not a child of the request's context, which ends with the handler.
	ctx, cancel := context.WithCancelCause(r.ctx)
	x.later(func() { cancel(nil) })
	x.ctx = ctx
	x.left, x.drop = func() { cancel(errLeft) }, func() { cancel(errResent) }
	stays := context.AfterFunc(x.req.Context(), x.left)
	x.later(func() { stays() })
	x.stays = stays
	lasts := context.AfterFunc(ctx, x.hurry)
	x.later(func() { lasts() })

	received, refused := x.readBody()
	if refused != nil {
		x.refuse(*refused)
		return
	}
	x.later(received.Release)
	x.payload = received
	x.record.BytesIn = int64(len(received.Bytes))

	d, refused := x.understand()
	if refused != nil {
		x.refuse(*refused)
		return
	}
	x.serveBy(d)
}

// hurry ends what an exchange whose context has ended still waits for. A write to
// a client that does not read would go on until its own deadline; one second is
// enough to say why it ends.
func (x *exchange) hurry() {
	x.deadlines.EndReads()
	if !errors.Is(context.Cause(x.ctx), errLeft) {
		x.deadlines.EndWrites(time.Second)
	}
}

// Why a request ends early: its client has closed its connection, or has sent it
// again.
var (
	errLeft   = errors.New("the client has left")
	errResent = errors.New("the client sent the same request again")
)

// readBody reads the request's body, until the client has stalled or the
// Router is closed. net/http lifts the deadline once it has all been read.
func (x *exchange) readBody() (*payload.Payload, *refusal) {
	patient := &payload.Patient{Reader: x.req.Body, Context: x.ctx, ReadBy: x.deadlines.ReadBy, Patience: x.router.opts.IdleTimeout}
	defer x.deadlines.HaveRead()
	body, problem := payload.Read(x.req, patient, x.router.opts.bodies(), &x.router.buffers)
	if problem != nil {
		return nil, &refusal{Error: *problem, close: true}
	}
	return body, nil
}

// maxChoices is OpenAI's own limit of "n"; each choice is a sequence of its
// own in the engine.
const maxChoices = 128

// understand scans the body, finds the model and the conversation, and edits
// the body where an engine needs it.
func (x *exchange) understand() (*deployment.Deployment, *refusal) {
	x.scan = x.router.turns.Scan(x.req.URL.Path, x.payload.Bytes)
	if !x.scan.Valid {
		return nil, forbid(http.StatusBadRequest, "the request body is not a JSON object")
	}
	if x.scan.N > maxChoices {
		return nil, forbid(http.StatusBadRequest, fmt.Sprintf("n is %d, at most %d answers can be asked for", x.scan.N, maxChoices))
	}
	x.record.Asked = x.scan.Model
	d, rename, refused := x.router.models.Load().find(x.scan.Model, x.router.opts.StrictModels)
	if refused != nil {
		return nil, refused
	}
	model := d.Model()
	x.record.Model, x.record.Stream, x.record.KeyID = model.Alias, x.scan.Stream, x.keyID
	x.identify()
	if x.edit, refused = x.mend(d, &model, rename); refused != nil {
		return nil, refused
	}
	x.parts = x.scan.Edited(x.payload.Bytes, x.edit)
	return d, nil
}

// identify says which conversation the request belongs to.
func (x *exchange) identify() {
	who := identity.Identify(identity.Request{
		Method: x.req.Method, Path: x.req.URL.Path, PeerAddr: x.req.RemoteAddr, APIKeyID: x.keyID,
		Model: x.record.Model, Header: x.req.Header, ExtraHeaders: x.router.opts.SessionHeaders,
	}, x.scan)
	if x.api == dialect.Plain || x.api == dialect.CountTokens {
		who.Class = identity.Auxiliary
	}
	x.who = &who
	x.record.Client, x.record.Class = who.Client, string(who.Class)
}

// serveBy gets a place at d and tries replicas until one has answered.
func (x *exchange) serveBy(d *deployment.Deployment) {
	x.turn = d.Arrive(&deployment.Request{
		Who: x.who, Scan: x.scan, Body: x.payload.Bytes, Arrived: x.record.Arrived,
		KeyID: x.keyID, Folded: x.edit.FoldSystemTurns, Drop: x.drop,
	})
	x.record.Session, x.record.Estimate = x.turn.Key.String(), x.turn.Estimate
	defer x.undo(x.depth())
	x.later(x.end)
	for p := x.awaitPlace(); p != nil && x.attempt(p); p = x.awaitPlace() {
		x.turn.Retry()
	}
}

// awaitPlace returns where the request goes next, or answers it and returns
// nil when it goes nowhere.
func (x *exchange) awaitPlace() *deployment.Place {
	asked := time.Now()
	p, reject, err := x.turn.Wait(x.ctx)
	x.record.Waited += time.Since(asked)
	switch {
	case err != nil:
		x.cut()
		return nil
	case reject != nil:
		x.refuseTurn(*reject)
		return nil
	}
	x.record.Attempts++
	x.record.Replica, x.record.Generation, x.record.Reason = p.Up.ID, p.Up.Generation, p.Reason
	if x.record.Placed.IsZero() {
		x.record.Placed = time.Now()
	}
	return p
}

// refuseTurn answers a turn that got no place. When replicas were tried and
// said "not now" themselves, their own words are the better answer.
func (x *exchange) refuseTurn(reject placement.Reject) {
	x.record.Failed = true
	if reject.Why == placement.WhyFailed && x.refusedBy != nil {
		x.w.Header().Set("Retry-After", "1")
		x.pass(x.refusedBy)
		return
	}
	x.refuse(rejected(reject, x.record.Model))
}

// cut ends an exchange whose context has ended: the client left, or sent the
// request again, or the Router is being closed. Where it may still be there it
// is told.
func (x *exchange) cut() {
	if errors.Is(context.Cause(x.ctx), errLeft) || x.committed {
		x.abort()
	}
	x.record.Aborted = true
	if errors.Is(context.Cause(x.ctx), errResent) {
		x.refuse(rejected(placement.Reject{Why: whyResent, RetryAfter: time.Minute}, x.record.Model))
		return
	}
	x.refuse(rejected(placement.Reject{Why: deployment.WhyClosed}, "warden"))
}

// abort ends the handler and the connection. Returning instead would make
// net/http end the answer properly: a client that is not gone after all would
// take half an answer, or none, for a whole one.
func (x *exchange) abort() {
	x.record.Aborted = true
	panic(http.ErrAbortHandler)
}

// end settles the accounts, exactly once, whatever happened before.
func (x *exchange) end() {
	x.record.Ended = time.Now()
	x.turn.End(&x.record)
	x.router.metrics.Finished(&x.record)
	x.report()
}
