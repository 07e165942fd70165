package server

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/fault"
	"github.com/lm-warden/warden/supervisor/simengine/metrics"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/anthropic"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/openai"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// Options describe a simulated engine. The zero value answers at once as model
// "simulated".
type Options struct {
	// Model is the repository or path that vLLM would load.
	Model string
	// Served are the names it answers to; the first is the reply's "model" and
	// the metrics' label. Empty means Model.
	Served []string
	// Version is the reported version; SIMULATED is appended as a local part.
	Version string
	// Dialect selects the wire details of a vLLM version.
	Dialect Dialect

	Engine    core.Config
	Tokenizer prompt.Tokenizer
	// Seed makes the answers of engines differ.
	Seed uint64
	// Words is the mean length of an answer, in words; 0 means 40.
	Words int

	// PromptTokensDetails is --enable-prompt-tokens-details: without it chat,
	// completions and messages do not report cached tokens.
	PromptTokensDetails bool
	// ForceIncludeUsage is --enable-force-include-usage.
	ForceIncludeUsage bool
	// NoFingerprint is --fingerprint-mode none.
	NoFingerprint bool
	// SystemAnywhere says that the chat template accepts system turns anywhere
	// (an explicit --chat-template). Without it inline system turns of
	// /v1/messages are merged into the leading system text, as vLLM does.
	SystemAnywhere bool
	// APIKeys guard the /v1 paths; empty means open.
	APIKeys []string
	// MaxQueuedRequests is --max-num-queued-reqs; 0 means unlimited.
	MaxQueuedRequests int
}

// Dialect is a vLLM version whose wire details are played.
type Dialect = api.Dialect

// The dialects.
const (
	V032 = api.V032 // the default
	V026 = api.V026
)

const defaultModel = "simulated"

// ConnContext is for http.Server.ConnContext: with it a request can reset its
// connection. Without it a reset is an ordinary close.
func ConnContext(ctx context.Context, c net.Conn) context.Context { return wire.ConnContext(ctx, c) }

// Server is one simulated engine.
type Server struct {
	opts     Options
	settings api.Settings // what of opts shows in answers
	engine   *engine
	faults   *fault.Set
	metrics  *metrics.Recorder
	writer   prompt.Writer
	mux      *http.ServeMux
	keys     [][sha256.Size]byte
	ids      atomic.Uint64
	started  time.Time
}

// WithDefaults returns the options as New uses them.
func (o Options) WithDefaults() Options {
	if o.Model == "" {
		o.Model = defaultModel
	}
	if len(o.Served) == 0 {
		o.Served = []string{o.Model}
	}
	if o.Dialect == "" {
		o.Dialect = V032
	}
	if o.Version == "" {
		o.Version = string(o.Dialect) + ".0"
	}
	if !strings.HasSuffix(o.Version, "+"+prompt.Label) {
		o.Version += "+" + prompt.Label
	}
	return o
}

// New builds an engine; Run makes it work. It fails when the configuration
// cannot serve a single request.
func New(o Options) (*Server, error) {
	o = o.WithDefaults()
	scheduler, err := core.New(o.Engine)
	if err != nil {
		return nil, fmt.Errorf("simulated engine for %s: %w", o.Model, err)
	}
	s := &Server{
		opts:    o,
		faults:  fault.New(o.Seed),
		writer:  prompt.Writer{Tokenizer: o.Tokenizer, Seed: o.Seed, Words: o.Words},
		started: time.Now(),
	}
	s.metrics = metrics.New(o.Served[0], o.Dialect == V032, scheduler.Config(), s.started)
	s.engine = newEngine(scheduler, s.faults, s.metrics)
	s.settings = api.Settings{
		Served: o.Served, Dialect: o.Dialect, Tokenizer: o.Tokenizer, MaxModelLen: s.Config().MaxModelLen,
		Fingerprint: o.fingerprint(), PromptTokensDetails: o.PromptTokensDetails,
		ForceIncludeUsage: o.ForceIncludeUsage, SystemAnywhere: o.SystemAnywhere,
	}
	for _, key := range o.APIKeys {
		s.keys = append(s.keys, sha256.Sum256([]byte(key)))
	}
	s.routes()
	return s, nil
}

// Faults controls what goes wrong.
func (s *Server) Faults() *fault.Set { return s.faults }

// Config returns the scheduler's configuration with defaults filled in.
func (s *Server) Config() core.Config { return s.engine.config }

// Drain refuses new requests and waits until none is in flight, or until ctx
// ends. /health stays 200 meanwhile, as in vLLM.
func (s *Server) Drain(ctx context.Context) { s.engine.drain(ctx) }

// Stats returns the engine's state as of its last step.
func (s *Server) Stats() core.Stats { return s.engine.stats() }

// Kill plays the death of EngineCore: /health answers 503, requests in flight
// fail. The caller decides when the process goes.
func (s *Server) Kill() { s.engine.kill() }

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("GET /health", s.health)
	s.mux.HandleFunc("GET /ping", s.health)
	s.mux.HandleFunc("POST /ping", s.health)
	s.mux.HandleFunc("GET /version", s.version)
	s.mux.HandleFunc("GET /load", s.load)
	s.mux.HandleFunc("GET /metrics", s.serveMetrics)
	s.mux.HandleFunc("GET /v1/models", s.models)
	s.mux.HandleFunc("POST /v1/chat/completions", s.generate(wire.OpenAI, func() api.Request { return new(openai.Chat) }))
	s.mux.HandleFunc("POST /v1/completions", s.generate(wire.OpenAI, func() api.Request { return new(openai.Completion) }))
	s.mux.HandleFunc("POST /v1/messages", s.generate(anthropic.Failure, func() api.Request { return new(anthropic.Messages) }))
	s.mux.HandleFunc("POST /v1/messages/count_tokens", s.query(anthropic.Failure, func() api.Query { return new(anthropic.Count) }))
	s.mux.HandleFunc("POST /v1/responses", s.generate(wire.OpenAI, func() api.Request { return new(openai.Responses) }))
	s.mux.HandleFunc("GET /v1/responses/{id}", responseByID)
	s.mux.HandleFunc("POST /v1/responses/{id}/cancel", responseByID)
	s.mux.HandleFunc("POST /v1/embeddings", s.embeddings)
	s.mux.HandleFunc("POST /tokenize", s.query(wire.OpenAI, func() api.Query { return new(openai.Tokenize) }))
	s.mux.HandleFunc("POST /detokenize", s.query(wire.OpenAI, func() api.Query { return new(openai.Detokenize) }))
	s.mux.HandleFunc("GET /sim/fault", s.showFaults)
	s.mux.HandleFunc("POST /sim/fault", s.setFaults)
}

// guarded are the path prefixes that vLLM protects with --api-key; the others
// stay open.
var guarded = []string{"/v1", "/v2", "/inference", "/cohere"}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, "/sim/") && !s.faults.Admit(r.Context()) {
		return // the client gave up on a stalled server
	}
	w.Header().Set("Server", "uvicorn")
	w.Header().Set("X-Engine", prompt.Label) // vLLM has no such header: it labels what has no other place for it
	if !s.authorized(r) {
		wire.Write(w, http.StatusUnauthorized, map[string]string{"error": "Unauthorized"})
		return
	}
	_, pattern := s.mux.Handler(r)
	if pattern == "" {
		s.notFound(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// notFound answers as FastAPI does: 405 where the path exists for another
// method, else 404.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := s.mux.Handler(other); pattern != "" {
			w.Header().Set("Allow", method)
			wire.Write(w, http.StatusMethodNotAllowed, map[string]string{"detail": "Method Not Allowed"})
			return
		}
	}
	wire.Write(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
}

// authorized checks the Bearer token; like vLLM it does not know x-api-key.
func (s *Server) authorized(r *http.Request) bool {
	if len(s.keys) == 0 {
		return true
	}
	open := true
	for _, prefix := range guarded {
		open = open && !strings.HasPrefix(r.URL.Path, prefix)
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	match := 0
	for _, key := range s.keys {
		match |= subtle.ConstantTimeCompare(sum[:], key[:])
	}
	return open || (strings.EqualFold(scheme, "bearer") && match == 1)
}

// newID returns a request id with vLLM's prefixes; a client's X-Request-Id
// becomes part of it, as in vLLM.
func (s *Server) newID(prefix string, r *http.Request) string {
	if given := r.Header.Get("X-Request-Id"); given != "" {
		return prefix + given
	}
	return prefix + s.randomID()
}

func (s *Server) randomID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%d", s.opts.Seed, s.started.UnixNano(), s.ids.Add(1)))
	return hex.EncodeToString(sum[:16])
}

// fingerprint labels every OpenAI answer; nil where it is switched off.
func (o Options) fingerprint() *string {
	if o.NoFingerprint {
		return nil
	}
	value := prompt.Label + "-vllm-" + strings.TrimSuffix(o.Version, "+"+prompt.Label)
	return &value
}
