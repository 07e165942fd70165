package metrics

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/router"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served is a router of one model and two replicas that has answered, refused
// and failed, so that each of its metrics has a value.
func served(t *testing.T) *router.Router {
	t.Helper()
	rt := newRouter(t)
	post(rt, "/v1/chat/completions", `{"model":"m","stream":true,"messages":[{"role":"user","content":"hello"}]}`)
	post(rt, "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"hello"}]}`)
	post(rt, "/nothing", `{}`)
	breakPrefix(rt)
	return rt
}

// breakPrefix sends a conversation whose system prompt changes in its third turn.
func breakPrefix(rt *router.Router) {
	history := `{"role":"user","content":"go on"}`
	for _, system := range []string{"one", "one", changed} {
		post(rt, "/v1/chat/completions", fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},%s]}`,
			system+strings.Repeat(" and so on", 2000), history), "X-Session-Id", "s1")
		history += `,{"role":"assistant","content":"a b"},{"role":"user","content":"go on"}`
	}
}

// changed begins a system prompt that the engine has nothing cached of.
const changed = "another"

// newRouter returns a router whose engines answer at once, from memory.
func newRouter(t *testing.T) *router.Router {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(engine.Close)
	rt := router.New(router.Options{StrictModels: true, Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", engine.Listener.Addr().String())
	}})
	t.Cleanup(rt.Close)
	if err := rt.SetModels([]router.Model{{Alias: "m", Repo: "org/m"}}); err != nil {
		t.Fatal(err)
	}
	var replicas []router.Replica
	for i := range 2 {
		replicas = append(replicas, router.Replica{
			ID: router.ReplicaID(fmt.Sprintf("r%d", i)), Generation: 1, Address: "http://engine", Accepting: true,
			MaxNumSeqs: 32, KVCapacityTokens: 100_000, MaxModelLen: 4096,
		})
	}
	if err := rt.SetReplicas("m", replicas); err != nil {
		t.Fatal(err)
	}
	return rt
}

// answer is an engine that has cached every prompt but the changed one.
func answer(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has left
	}
	cached := 7984
	if strings.Contains(string(body), changed) {
		cached = 0
	}
	usage := fmt.Sprintf(`"usage":{"prompt_tokens":8000,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":%d}}`, cached)
	if !strings.Contains(string(body), `"stream":true`) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"a b"},"finish_reason":"stop"}],`+usage+`}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, delta := range []string{`{"content":"a"}`, `{"content":" b"}`} {
		fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":%s}]}\n\n", delta)
	}
	fmt.Fprint(w, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
	fmt.Fprint(w, "data: {\"choices\":[],"+usage+"}\n\ndata: [DONE]\n\n")
}

// post sends one request and returns its status.
func post(rt *router.Router, path, body string, header ...string) int {
	req := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	req.Host = "localhost"
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	rt.ServeHTTP(w, req)
	return w.Code
}

// seriesOf counts what a scrape holds of warden's own.
func seriesOf(t *testing.T, e *Exporter) int {
	t.Helper()
	n := 0
	for _, f := range ours(t, e.gatherer()) {
		n += samples(f)
	}
	return n
}

// Whatever clients send, the number of series has a bound: it is reached once
// every word that warden itself knows has occurred.
func TestClientsCannotMakeSeries(t *testing.T) {
	e := New(fleet())
	rt := newRouter(t)
	e.Register(rt)
	hostile := func(i int) {
		name := fmt.Sprintf("model-%d", i)
		id := fmt.Sprintf("session-%d", i)
		agent := fmt.Sprintf("agent/%d", i)
		chat := func(model string) string {
			return fmt.Sprintf(`{"model":%q,"user":%q,"messages":[{"role":"user","content":%q}]}`, model, id, name)
		}
		for _, header := range [][]string{
			{"X-Session-Id", id, "User-Agent", agent}, {"X-Claude-Code-Session-Id", id}, {"X-Request-Id", id, "Session_id", id},
			{"X-Vllm-Priority", id, "Traceparent", id, "Origin", "https://" + id},
		} {
			post(rt, "/v1/chat/completions", chat("m"), header...)
			post(rt, "/v1/chat/completions", chat(name), header...)
			post(rt, "/v1/messages", chat("org/m"), header...)
			post(rt, "/"+name, chat("m"), header...)
			post(rt, "/v1/chat/completions?"+name, name, header...)
		}
	}
	for i := range 10 {
		hostile(i)
	}
	before := seriesOf(t, e)
	for i := range 100 {
		hostile(10 + i)
	}
	if after := seriesOf(t, e); after != before {
		t.Errorf("%d series after 10 hostile clients, %d after 110", before, after)
	}
	if before > 1000 {
		t.Errorf("%d series for 2 replicas", before)
	}
	w := httptest.NewRecorder()
	e.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, word := range []string{"model-", "session-", "agent/"} {
		if strings.Contains(w.Body.String(), word) {
			t.Errorf("the answer holds a client's %q", word)
		}
	}
}
