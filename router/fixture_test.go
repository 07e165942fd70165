package router

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/router/framing"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory is a network without an operating system: its waits are channels, so
// it works inside a synctest bubble.
type memory struct {
	mu        sync.Mutex
	listeners map[string]*memoryListener
	refuse    error // engines cannot be reached for this reason
}

type memoryListener struct {
	name  string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (m *memory) listen(name string) *memoryListener {
	l := &memoryListener{name: name, conns: make(chan net.Conn), done: make(chan struct{})}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners == nil {
		m.listeners = map[string]*memoryListener{}
	}
	m.listeners[name] = l
	return l
}

func (m *memory) dial(ctx context.Context, name string) (net.Conn, error) {
	m.mu.Lock()
	l, refuse := m.listeners[name], m.refuse
	m.mu.Unlock()
	if refuse != nil && strings.HasPrefix(name, "mem:") {
		return nil, refuse
	}
	if l == nil {
		return nil, errors.New("no such address: " + name)
	}
	select {
	case <-l.done:
		return nil, errors.New("connection refused")
	default:
	}
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l *memoryListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *memoryListener) Addr() net.Addr { return memoryAddr(l.name) }

type memoryAddr string

func (a memoryAddr) Network() string { return "memory" }
func (a memoryAddr) String() string  { return string(a) }

// engine is a fake replica: it notes what it got and answers by handler.
type engine struct {
	id      ReplicaID
	server  *http.Server
	mu      sync.Mutex
	handler http.HandlerFunc
	got     []gotRequest
}

type gotRequest struct {
	path, query, body string
	header            http.Header
}

func (e *engine) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	e.mu.Lock()
	e.got = append(e.got, gotRequest{req.URL.Path, req.URL.RawQuery, string(body), req.Header.Clone()})
	h := e.handler
	e.mu.Unlock()
	if err != nil {
		return
	}
	h(w, req)
}

func (e *engine) set(h http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handler = h
}

func (e *engine) requests() []gotRequest {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]gotRequest(nil), e.got...)
}

// kill is the death of the process: no listener, all connections cut.
func (e *engine) kill() { _ = e.server.Close() }

// fixture is a Router between a client and fake engines, all in memory.
type fixture struct {
	t       *testing.T
	net     *memory
	router  *Router
	server  *http.Server
	client  *http.Client
	engines []*engine

	mu       sync.Mutex
	failures []string
	events   []string
	records  []Record
}

const testModel = "qwen3-4b"

type setup struct {
	engines int
	options Options
	model   Model
	// maxNumSeqs of every replica, default 32.
	maxNumSeqs int
}

func newFixture(t *testing.T, s setup) *fixture {
	t.Helper()
	f := &fixture{t: t, net: &memory{}}
	o := s.options
	o.Dial = f.net.dial
	o.OnFailure = func(id ReplicaID, generation uint64, err error) {
		f.note(&f.failures, fmt.Sprintf("%s/%d", id, generation))
	}
	o.OnEvent = func(kind string, replica ReplicaID, model, text string, _ map[string]string) {
		f.note(&f.events, kind+" "+string(replica)+": "+text)
	}
	o.OnFinish = func(r Record) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.records = append(f.records, r)
	}
	f.router = New(o)
	if s.model.Alias == "" {
		s.model.Alias, s.model.Repo = testModel, "Qwen/Qwen3-4B-Instruct-2507"
	}
	if err := f.router.SetModels([]Model{s.model}); err != nil {
		t.Fatal(err)
	}
	if s.maxNumSeqs == 0 {
		s.maxNumSeqs = 32
	}
	for i := range s.engines {
		f.startEngine(ReplicaID(fmt.Sprintf("r%d", i)))
	}
	if s.engines > 0 {
		f.setReplicas(s.model.Alias, s.maxNumSeqs)
	}
	f.server = NewServer(f.router)
	front := f.net.listen("warden")
	go func() { _ = f.server.Serve(framing.Listen(front)) }()
	f.client = &http.Client{Transport: &http.Transport{
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return f.net.dial(ctx, "warden") },
		DisableCompression: true,
	}}
	t.Cleanup(f.stop)
	return f
}

func (f *fixture) startEngine(id ReplicaID) *engine {
	e := &engine{id: id, handler: sayHello}
	e.server = &http.Server{Handler: e}
	l := f.net.listen("mem:" + string(id))
	go func() { _ = e.server.Serve(l) }()
	f.engines = append(f.engines, e)
	return e
}

func (f *fixture) setReplicas(model string, maxNumSeqs int) {
	f.t.Helper()
	var set []Replica
	for _, e := range f.engines {
		set = append(set, Replica{ID: e.id, Generation: 1, Address: "mem:" + string(e.id), Accepting: true,
			MaxNumSeqs: maxNumSeqs, KVCapacityTokens: 40_000, MaxModelLen: 16_384})
	}
	if err := f.router.SetReplicas(model, set); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) stop() {
	f.router.Close()
	_ = f.server.Close()
	for _, e := range f.engines {
		_ = e.server.Close()
	}
	f.client.CloseIdleConnections()
	elapse(time.Second) // net/http lingers 500 ms on connections that it cuts
	for _, e := range f.engines {
		if held, _ := f.router.Work(e.id); held != 0 {
			f.t.Errorf("%s holds %d turns at the end", e.id, held)
		}
	}
	for _, m := range f.router.Snapshot(0).Models {
		for _, r := range m.Replicas {
			if r.Held != 0 {
				f.t.Errorf("placement counts %d turns on %s at the end", r.Held, r.ID)
			}
		}
		if len(m.Queue) != 0 {
			f.t.Errorf("%d turns wait at the end", len(m.Queue))
		}
	}
}

func (f *fixture) note(to *[]string, s string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*to = append(*to, s)
}

func (f *fixture) noted(from *[]string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), *from...)
}

// reported are the records of all requests.
func (f *fixture) reported() []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Record(nil), f.records...)
}

// finished are the records of those that asked for a place.
func (f *fixture) finished() []Record {
	return slices.DeleteFunc(f.reported(), func(r Record) bool { return r.Estimate < 0 })
}

// every sets the handler of all engines.
func (f *fixture) every(h func(*engine) http.HandlerFunc) {
	for _, e := range f.engines {
		e.set(h(e))
	}
}

func (f *fixture) engine(id string) *engine {
	f.t.Helper()
	for _, e := range f.engines {
		if e.id == ReplicaID(id) {
			return e
		}
	}
	f.t.Fatalf("no engine %q", id)
	return nil
}

// reply is what a client sees of an answer.
type reply struct {
	status int
	header http.Header
	body   string
	err    error // of reading the body
}

func (f *fixture) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	f.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			req.Host = header[i+1]
		} else {
			req.Header.Set(header[i], header[i+1])
		}
	}
	return req
}

func (f *fixture) do(req *http.Request) reply {
	resp, err := f.client.Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(body), err}
}

func (f *fixture) post(path, body string, header ...string) reply {
	f.t.Helper()
	return f.do(f.request(f.t.Context(), http.MethodPost, path, body, header...))
}

// turn sends one turn of a conversation and returns the replica and reason.
func (f *fixture) chat(session string) (replica, reason string) {
	f.t.Helper()
	r := f.post("/v1/chat/completions", chatBody("hello"), "X-Session-Id", session)
	if r.body != helloBody || r.err != nil {
		f.t.Fatalf("turn of %s: %d %s %v", session, r.status, r.body, r.err)
	}
	return r.header.Get("X-Warden-Replica"), r.header.Get("X-Warden-Reason")
}

func chatBody(text string) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":%q}]}`, testModel, text)
}

func streamBody(text string) string {
	return strings.Replace(chatBody(text), "{", `{"stream":true,"stream_options":{"include_usage":true},`, 1)
}

// sayHello answers as an engine does that has measured 100 prompt tokens, 80
// of them cached.
func sayHello(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, helloBody)
}

const helloBody = `{"id":"c1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":80}}}`

func chunk(text string) string {
	return fmt.Sprintf(`data: {"id":"c1","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text) + "\n\n"
}

const (
	finishChunk = `data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	usageChunk  = `data: {"id":"c1","choices":[],"usage":{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":80}}}` + "\n\n"
	doneEvent   = "data: [DONE]\n\n"
)

// writer streams events, each flushed on its own.
type writer struct {
	w http.ResponseWriter
}

func stream(w http.ResponseWriter) writer {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	return writer{w}
}

func (s writer) send(events ...string) {
	for _, e := range events {
		_, _ = io.WriteString(s.w, e)
		s.w.(http.Flusher).Flush()
	}
}

func (s writer) finish() { s.send(finishChunk, usageChunk, doneEvent) }

// cut ends a connection in the middle of its answer.
func cut() { panic(http.ErrAbortHandler) }

// inBubble runs a test with virtual time.
func inBubble(t *testing.T, test func(*testing.T)) { t.Helper(); synctest.Test(t, test) }

// soon is a virtual while: everything that can happen without waiting for
// time has happened.
func soon() { synctest.Wait() }

func decodeJSON(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("not JSON: %q: %v", text, err)
	}
	return v
}

// elapse lets virtual time pass.
func elapse(d time.Duration) { <-time.After(d) }
