package router

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/gate"
	"github.com/lm-warden/warden/router/identity/scan"
	"github.com/lm-warden/warden/router/keys"
	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/metrics"
	"github.com/lm-warden/warden/router/payload"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/pump"
	"github.com/lm-warden/warden/router/record"
)

// ReplicaID names a replica; ids are unique over all models.
type ReplicaID = placement.ReplicaID

// EngineView is what a replica's engine says about itself.
type EngineView = placement.EngineView

// Options configure a Router. The zero value works: no keys, loopback names
// only, nobody told of anything.
type Options struct {
	Log *slog.Logger // default: discard

	// Keys says who may use the API, for what and how much; nil lets everybody.
	Keys *keys.Guard
	// Hosts are names that may stand in the Host header, beside localhost,
	// loopback addresses and the address a connection came in on.
	Hosts []string
	// Origins are web origins (scheme://host:port) whose pages may call us.
	Origins []string

	// StrictModels refuses unknown model names even if there is one model.
	StrictModels bool
	// SessionHeaders name further headers that carry a conversation id; they
	// come before the known ones.
	SessionHeaders []string

	// MaxBody bounds a request body after decoding, in bytes. Default 34 MiB:
	// Anthropic's own limit of 32 MB and some room.
	MaxBody int64
	// SpoolBody is the size beyond which a request body lies in an unlinked file
	// in SpoolDir ("": os.TempDir()) instead of memory, in bytes. Default 16 MiB.
	SpoolBody int64
	SpoolDir  string
	// IdleTimeout bounds how long a client may send nothing of its body, or
	// read nothing of its answer. Default 30 s.
	IdleTimeout time.Duration
	// MaxOpen bounds the requests for engines that are open at one time: each may
	// take a connection to one, and a client's HTTP/2 connection brings many.
	// 0: no bound.
	MaxOpen int
	// Metrics serves GET /metrics; nil makes it a 404.
	Metrics http.Handler

	// OnFailure is told when the connection to a replica's process broke or
	// its engine said that it is dead. It must not block.
	OnFailure func(id ReplicaID, generation uint64, err error)
	// OnEvent is told what an operator may want to see. It must not block.
	OnEvent func(kind string, replica ReplicaID, model, text string, fields map[string]string)
	// OnFinish is told of every request for an engine, and of every refusal,
	// when it has ended: for access logs. It must not block.
	OnFinish func(Record)
	// Trace begins the span of a request for an engine, in the trace that its
	// client named, if any. It returns the trace context that the engine gets,
	// and what is told when the request has ended. Neither may block. nil
	// leaves the client's own headers as they are.
	Trace func(arrived time.Time, client TraceContext) (TraceContext, func(Record))

	// Dial connects to a replica's address instead of the operating system.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 34 << 20
	}
	if o.SpoolBody <= 0 {
		o.SpoolBody = 16 << 20
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 30 * time.Second
	}
	if o.OnFailure == nil {
		o.OnFailure = func(ReplicaID, uint64, error) {}
	}
	if o.OnEvent == nil {
		o.OnEvent = func(string, ReplicaID, string, string, map[string]string) {}
	}
	if o.OnFinish == nil {
		o.OnFinish = func(Record) {}
	}
	if o.Dial == nil {
		o.Dial = link.Dial
	}
	return o
}

// TraceContext is a request's place in a distributed trace.
type TraceContext = record.TraceContext

func (o Options) bodies() payload.Limits {
	return payload.Limits{Body: o.MaxBody, Spool: o.SpoolBody, Dir: o.SpoolDir}
}

// Router is the http.Handler that agents talk to. Make one with New.
type Router struct {
	opts    Options
	guard   gate.Guard
	metrics *metrics.Set
	started time.Time

	models  atomic.Pointer[catalog]
	changes sync.Mutex         // serialises SetModels
	shared  deployment.Options // of all models
	now     func() time.Time   // when a request arrives; tests move it

	buffers payload.Pool // for request bodies and whole answers
	turns   *scan.Memo
	pump    pump.Pump // copies streams

	ctx   context.Context // ends all requests
	close context.CancelFunc

	mu       sync.Mutex
	open     int           // requests in ServeHTTP that a replica may serve
	draining bool          // no new ones
	idle     chan struct{} // closed when open falls to 0 while draining
}

// New returns a Router without models; it refuses everything until SetModels.
func New(opts Options) *Router {
	opts = opts.withDefaults()
	r := &Router{opts: opts, guard: gate.NewGuard(opts.Hosts, opts.Origins), metrics: metrics.New(), started: time.Now(), now: time.Now, turns: scan.NewMemo()}
	r.shared = deployment.Options{Log: opts.Log, Metrics: r.metrics, Dial: opts.Dial, Buffers: new(link.Buffers),
		OnFailure: opts.OnFailure, OnEvent: opts.OnEvent}
	r.ctx, r.close = context.WithCancel(context.Background())
	r.models.Store(&catalog{})
	return r
}

// ServeHTTP answers one request.
func (r *Router) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	x := newExchange(r, w, req)
	defer x.undo(0)
	x.later(x.deadlines.Done)
	if denied := r.guard.Check(req); denied != nil {
		x.refuse(refusal{Error: *denied})
		return
	}
	if r.guard.Preflight(w, req) {
		return
	}
	route, found := routeOf(req)
	x.api = route.api
	if !found {
		x.refuse(unknownPath(req))
		return
	}
	if !route.allows(req.Method) {
		x.refuse(wrongMethod(req, route))
		return
	}
	if refused := x.authorise(route); refused != nil {
		x.refuse(*refused)
		return
	}
	x.later(x.release)
	route.serve(r, x)
}

// enter counts a request that a replica may serve, or says why none may: the
// Router drains, or too many are open.
func (r *Router) enter() (refused placement.Why) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.draining:
		return deployment.WhyClosed
	case r.opts.MaxOpen > 0 && r.open >= r.opts.MaxOpen:
		return whyTooMany
	}
	r.open++
	return ""
}

func (r *Router) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.open--; r.open == 0 && r.draining {
		close(r.idle)
	}
}

// Drain refuses new requests and returns when the last one has ended, or with
// ctx's error when that comes first. It may be called again.
func (r *Router) Drain(ctx context.Context) error {
	r.mu.Lock()
	if !r.draining {
		r.draining = true
		r.idle = make(chan struct{})
		if r.open == 0 {
			close(r.idle)
		}
	}
	idle := r.idle
	r.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Cut ends every request still open and waits until they have ended. A closed
// http.Server has not ended those whose connections were taken from it.
func (r *Router) Cut() {
	r.close()
	// They end by themselves once their context has: waiting is bounded.
	_ = r.Drain(context.Background())
}

// Close is Cut, and releases timers and connections.
func (r *Router) Close() {
	r.Cut()
	for _, d := range r.models.Load().deployments {
		d.Shut()
	}
	r.pump.Close()
}

// NewServer wraps h in an http.Server with the limits that the data path
// needs: time to send the headers and to stay idle, none for an answer, which
// may take minutes, and no protocol but HTTP/1.
func NewServer(h http.Handler) *http.Server {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:                      h,
		ReadHeaderTimeout:            10 * time.Second,
		IdleTimeout:                  120 * time.Second,
		MaxHeaderBytes:               gate.MaxHeaderBytes,
		DisableGeneralOptionsHandler: true,
		Protocols:                    &protocols,
	}
}
