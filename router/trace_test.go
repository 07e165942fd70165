package router

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientParent = "00-" + clientTrace + "-00f067aa0ba902b7-01"
	ownParent    = "00-" + clientTrace + "-1111111111111111-01"
)

// spans stands for a tracer: it continues every trace as ownParent.
type spans struct {
	mu    sync.Mutex
	began []TraceContext
	ended []Record
}

func (s *spans) begin(_ time.Time, in TraceContext) (TraceContext, func(Record)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began = append(s.began, in)
	return TraceContext{Parent: ownParent, State: in.State}, func(r Record) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ended = append(s.ended, r)
	}
}

func TestTraceHeadersPassUntouchedWithoutTracing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		f.post("/v1/chat/completions", chatBody("a"), "Traceparent", clientParent, "Tracestate", "vendor=1")
		f.post("/v1/chat/completions", chatBody("b"), "Traceparent", "not a trace", "Tracestate", "vendor=2")
		f.post("/v1/chat/completions", chatBody("c"))
		synctest.Wait()
		wantParent, wantState := []string{clientParent, "not a trace", ""}, []string{"vendor=1", "vendor=2", ""}
		for i, got := range f.engine("r0").requests() {
			if p, s := got.header.Get("Traceparent"), got.header.Get("Tracestate"); p != wantParent[i] || s != wantState[i] {
				t.Errorf("request %d: the engine got %q, %q", i, p, s)
			}
		}
		for i, rec := range f.reported() {
			if want := []string{clientTrace, "", ""}[i]; rec.Trace.TraceID() != want {
				t.Errorf("request %d: the record names trace %q, want %q", i, rec.Trace.TraceID(), want)
			}
		}
	})
}

func TestSpansContinueTheClientsTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s spans
		f := newFixture(t, setup{engines: 1, options: Options{Trace: s.begin}})
		f.post("/v1/chat/completions", chatBody("a"), "Traceparent", clientParent, "Tracestate", "vendor=1")
		f.post("/v1/chat/completions", chatBody("b"), "Traceparent", "not a trace", "Tracestate", "vendor=2")
		f.post("/v1/chat/completions", `{`)
		f.do(f.request(t.Context(), http.MethodGet, "/v1/models", ""))
		synctest.Wait()
		if len(s.began) != 3 || len(s.ended) != 3 {
			t.Fatalf("%d spans began and %d ended, want 3: one for each request that is meant for an engine", len(s.began), len(s.ended))
		}
		if want := (TraceContext{Parent: clientParent, State: "vendor=1"}); s.began[0] != want {
			t.Errorf("the span continues %+v, want %+v", s.began[0], want)
		}
		if s.began[1] != (TraceContext{Parent: "not a trace"}) {
			t.Errorf("a state without a trace was taken over: %+v", s.began[1])
		}
		for i, got := range f.engine("r0").requests() {
			if p := got.header.Get("Traceparent"); p != ownParent {
				t.Errorf("request %d: the engine's parent is %q, want warden's own span", i, p)
			}
			if want := []string{"vendor=1", ""}[i]; got.header.Get("Tracestate") != want {
				t.Errorf("request %d: the engine got the state %q", i, got.header.Get("Tracestate"))
			}
		}
		if rec := s.ended[2]; rec.Result() != "refused" || rec.Cause != "bad_request" || rec.Ended.IsZero() {
			t.Errorf("the refused request ended as %s, cause %q", rec.Result(), rec.Cause)
		}
	})
}

// One id is in the answer, in the error's body, in the record and at the engine.
func TestRequestIDIsOneEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1})
		for _, c := range []struct {
			name, sent, body, path string
			kept                   bool
		}{
			{"the client's", "my-request-1", chatBody("a"), "/v1/chat/completions", true},
			{"none", "", chatBody("b"), "/v1/chat/completions", false},
			{"longest", strings.Repeat("x", 128), chatBody("c"), "/v1/chat/completions", true},
			{"too long", strings.Repeat("x", 129), chatBody("d"), "/v1/chat/completions", false},
			{"a space", "two words", chatBody("e"), "/v1/chat/completions", false},
			{"not ASCII", "h\xc3\xa9", chatBody("f"), "/v1/chat/completions", false},
			{"refused", "my-request-2", "{", "/v1/messages", true},
		} {
			before := len(f.engine("r0").requests())
			r := f.post(c.path, c.body, "X-Request-Id", c.sent)
			synctest.Wait()
			id := r.header.Get("X-Request-Id")
			if id == "" || c.kept != (id == c.sent) {
				t.Errorf("%s: %q became %q", c.name, c.sent, id)
			}
			records := f.reported()
			if got := records[len(records)-1].RequestID; got != id {
				t.Errorf("%s: the record says %q, the answer %q", c.name, got, id)
			}
			if r.status >= 400 {
				if !strings.Contains(r.body, id) {
					t.Errorf("%s: the error's body does not name %s: %s", c.name, id, r.body)
				}
				continue
			}
			if got := f.engine("r0").requests()[before].header.Get("X-Request-Id"); got != id {
				t.Errorf("%s: the engine got %q, the client %q", c.name, got, id)
			}
		}
	})
}

func TestRecordsOfRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, options: Options{StrictModels: true}})
		for _, c := range []struct {
			method, path, body, cause string
			status                    int
		}{
			{http.MethodPost, "/v1/chat/completions", `{"model":"other"}`, "model_not_found", 404},
			{http.MethodPost, "/v1/chat/completions", `[]`, "bad_request", 400},
			{http.MethodGet, "/v1/chat/completions", "", "method_not_allowed", 405},
			{http.MethodGet, "/shutdown", "", "not_found", 404},
		} {
			before := len(f.reported())
			f.do(f.request(t.Context(), c.method, c.path, c.body))
			synctest.Wait()
			records := f.reported()
			if len(records) != before+1 {
				t.Errorf("%s %s: %d records", c.method, c.path, len(records)-before)
				continue
			}
			if r := records[before]; r.Status != c.status || r.Cause != c.cause || r.Path != c.path || r.Ended.IsZero() {
				t.Errorf("%s %s: %d %s, want %d %s", c.method, c.path, r.Status, r.Cause, c.status, c.cause)
			}
		}
		f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) })
		f.post("/v1/chat/completions", chatBody("a"))
		synctest.Wait()
		records := f.reported()
		if r := records[len(records)-1]; r.Status != 400 || r.Cause != "engine" || r.Replica != "r0" {
			t.Errorf("what the engine refused: %+v", r)
		}
	})
}

// The wait for a place and the attempts that failed are told apart from the
// time that the engine took.
func TestRecordsOfWaitsAndRetries(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		starting := []Replica{{ID: "r0", Generation: 2, Address: "mem:r0", Starting: true}}
		if err := f.router.SetReplicas(testModel, starting); err != nil {
			t.Fatal(err)
		}
		done := make(chan reply)
		go func() { done <- f.post("/v1/chat/completions", chatBody("x")) }()
		elapse(30 * time.Second)
		starting[0].Accepting, starting[0].Starting = true, false
		f.engine("r0").set(func(http.ResponseWriter, *http.Request) {
			<-time.After(2 * time.Second)
			f.setReplicas(testModel, 32) // r1 comes, and r0 breaks off
			panic(http.ErrAbortHandler)
		})
		if err := f.router.SetReplicas(testModel, starting); err != nil {
			t.Fatal(err)
		}
		<-done
		synctest.Wait()
		rec := f.reported()[0]
		if rec.Waited != 30*time.Second || rec.Since(rec.Placed) != 30*time.Second || rec.Since(rec.Ended) != 32*time.Second {
			t.Errorf("waited %v, placed after %v, ended after %v", rec.Waited, rec.Since(rec.Placed), rec.Since(rec.Ended))
		}
		if rec.Retries() != 1 || rec.Replica != "r1" || rec.Result() != "complete" {
			t.Errorf("%d retries, answered by %s, %s", rec.Retries(), rec.Replica, rec.Result())
		}
	})
}
