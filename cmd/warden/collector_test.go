package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asked is one request to be traced.
type asked struct {
	id, path, body, parent string
	stream                 bool
	name                   string // of its span
	status                 int
}

const (
	tracedID, tracedParent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	neverTold              = "zebra-crossing"
)

// tracedRequests are every API, streamed and not, inside a client's trace and
// without one.
func tracedRequests() []asked {
	traced := "00-" + tracedID + "-" + tracedParent + "-01"
	chat := `{"model":"qwen3-4b","max_tokens":6,"stream":%v,"messages":[{"role":"user","content":"` + neverTold + `"}]}`
	input := `{"model":"qwen3-4b","max_output_tokens":6,"stream":%v,"input":"` + neverTold + `"}`
	prompt := `{"model":"qwen3-4b","max_tokens":6,"stream":%v,"prompt":"` + neverTold + `"}`
	return []asked{
		{"chat", "/v1/chat/completions", chat, traced, true, "chat qwen3-4b", 200},
		{"chat-whole", "/v1/chat/completions", chat, "", false, "chat qwen3-4b", 200},
		{"messages", "/v1/messages", chat, "", true, "chat qwen3-4b", 200},
		{"messages-whole", "/v1/messages", chat, traced, false, "chat qwen3-4b", 200},
		{"responses", "/v1/responses", input, traced, true, "chat qwen3-4b", 200},
		{"responses-whole", "/v1/responses", input, "", false, "chat qwen3-4b", 200},
		{"completions", "/v1/completions", prompt, "", true, "text_completion qwen3-4b", 200},
		{"refused", "/v1/chat/completions", `[%v]`, traced, false, "chat", 400},
	}
}

func (w *running) askTraced(q asked) {
	w.t.Helper()
	req, err := http.NewRequest(http.MethodPost, w.url+q.path, strings.NewReader(fmt.Sprintf(q.body, q.stream)))
	if err != nil {
		w.t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Request-Id": q.id, "X-Session-Id": neverTold + q.id,
		"Authorization": "Bearer " + neverTold, "Traceparent": q.parent} {
		if value != "" {
			req.Header.Set(name, value)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != q.status {
		w.t.Errorf("%s: %s, %v", q.id, resp.Status, err)
	}
}

// A real Collector gets one span for each request, whole and in the words of the
// GenAI conventions, and nothing of what was said.
func TestCollectorGetsOneSpanForEachRequest(t *testing.T) {
	if *collectorProgram == "" {
		t.Skip("needs a Collector: scripts/test-otel.sh builds one and runs this")
	}
	c := newCollector(t)
	c.start()
	w := launchWith(t, newHome(t), []string{
		"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.address, "OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_BSP_SCHEDULE_DELAY=50",
		"OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=try%20out,service.name=lost", "OTEL_SERVICE_NAME=our-warden",
	}, "--demo", "--demo-sessions", "0", "--dp", "2", "--listen", "127.0.0.1:0")
	w.waitFor(allReady)
	requests := tracedRequests()
	for _, q := range requests {
		w.askTraced(q)
	}
	unsampled := requests[1]
	unsampled.id, unsampled.parent = "unsampled", "00-"+tracedID+"-"+tracedParent+"-00"
	w.askTraced(unsampled)
	if out, code := w.runCommand("down"); code != 0 { // sends what is left
		t.Fatalf("down: %d %s", code, out)
	}
	<-w.done
	await(t, 10*time.Second, "all spans", func() bool { return len(c.spans()) >= len(requests) })

	spans := c.spans()
	if len(spans) != len(requests) {
		t.Errorf("%d spans of %d requests", len(spans), len(requests))
	}
	for _, q := range requests {
		at := slices.IndexFunc(spans, func(s arrived) bool { return s.Attrs.of("warden.request_id") == q.id })
		if at < 0 {
			t.Errorf("%s has no span", q.id)
			continue
		}
		checkSpan(t, q, spans[at])
	}
	if content, err := os.ReadFile(c.file); err != nil || strings.Contains(string(content), neverTold) {
		t.Errorf("the Collector has what a client said, or its names: %v", err)
	}
	sample, _ := json.MarshalIndent(spans[0], "", " ")
	t.Logf("%d spans; the first:\n%s", len(spans), sample)
}

// checkSpan holds a span to its request.
func checkSpan(t *testing.T, q asked, s arrived) {
	t.Helper()
	wrong := func(format string, args ...any) { t.Helper(); t.Errorf(q.id+": "+format, args...) }
	if s.Name != q.name || s.Kind != 2 || s.Scope != "github.com/lm-warden/warden/router" {
		wrong("%q, kind %d, of %s", s.Name, s.Kind, s.Scope)
	}
	if q.parent != "" && (s.TraceID != tracedID || s.Parent != tracedParent) || q.parent == "" && (len(s.TraceID) != 32 || s.Parent != "" || s.TraceID == tracedID) {
		wrong("in trace %s below %q", s.TraceID, s.Parent)
	}
	for key, want := range map[string]any{"service.name": "our-warden", "deployment.environment.name": "try out", "telemetry.sdk.name": "opentelemetry",
		"telemetry.sdk.language": "go"} {
		if got := s.Resource.of(key); got != want {
			wrong("resource %s is %v, want %v", key, got, want)
		}
	}
	want := map[string]any{"url.path": q.path, "http.request.method": "POST", "http.response.status_code": strconv.Itoa(q.status),
		"gen_ai.operation.name": strings.TrimSuffix(q.name, " qwen3-4b"), "gen_ai.provider.name": "simulated", "server.address": "127.0.0.1"}
	present := []string{"service.version", "telemetry.sdk.version", "server.port"}
	events := []string{}
	if q.status == 200 {
		want["gen_ai.request.model"], want["gen_ai.response.model"] = "qwen3-4b", "qwen3-4b"
		want["gen_ai.usage.output_tokens"], want["warden.outcome"], want["gen_ai.request.stream"] = "6", "complete", q.stream
		present = append(present, "gen_ai.conversation.id", "gen_ai.usage.input_tokens", "gen_ai.response.finish_reasons", "warden.replica", "warden.reason")
		events = []string{"placed", "first_byte", "first_token"}
	} else {
		want["warden.outcome"], want["error.type"] = "refused", "bad_request"
	}
	for key, value := range want {
		if got := s.Attrs.of(key); got != value {
			wrong("%s is %v, want %v", key, got, value)
		}
	}
	for _, key := range present {
		if s.Attrs.of(key) == nil && s.Resource.of(key) == nil {
			wrong("%s is missing", key)
		}
	}
	checkTimes(t, q, s, events)
}

// checkTimes wants these events and no others, in order, within the span.
func checkTimes(t *testing.T, q asked, s arrived, events []string) {
	t.Helper()
	if !q.stream && len(events) > 0 { // an answer in one piece has no first token
		events = events[:2]
	}
	names, last := []string{}, s.Start
	for _, e := range s.Events {
		names = append(names, e.Name)
		if e.Time < last { // as many digits each
			t.Errorf("%s: %s at %s, after %s", q.id, e.Name, e.Time, last)
		}
		last = e.Time
	}
	if !slices.Equal(names, events) || s.End < last {
		t.Errorf("%s: events %v until %s, want %v until %s", q.id, names, last, events, s.End)
	}
}

// ill is a Collector that takes no spans.
type ill struct {
	address string   // where spans are sent
	mend    func()   // lets it take spans; nil: that is not tried
	keeps   *otelcol // them then
	freeze  func()   // before the stop; nil: it stays as it is
	check   func()   // what is left to look at; nil: nothing
}

func answers503(t *testing.T) ill {
	keeps := newCollector(t) // not there yet
	relay := newRelay(t, keeps.address)
	relay.start()
	return ill{address: relay.address, keeps: keeps, mend: keeps.start}
}

// answers429 asks for a pause of a second, and counts who does not make it: a
// batch is offered three times, so that two of three pauses are its.
func answers429(t *testing.T) ill {
	var mu sync.Mutex
	var asked []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		asked = append(asked, time.Now())
		mu.Unlock()
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(server.Close)
	relay := newRelay(t, strings.TrimPrefix(server.URL, "http://"))
	relay.start()
	return ill{address: relay.address, check: func() {
		mu.Lock()
		defer mu.Unlock()
		short := 0
		for i := 1; i < len(asked); i++ {
			if asked[i].Sub(asked[i-1]) < 900*time.Millisecond {
				short++
			}
		}
		if n := len(asked); n < 3 || short > n/3 {
			t.Errorf("asked %d times, %d of them within a second", n, short)
		}
	}}
}

func isGone(t *testing.T) ill {
	keeps := newCollector(t)
	return ill{address: keeps.address, keeps: keeps, mend: keeps.start}
}

func hangs(t *testing.T) ill {
	keeps := newCollector(t)
	keeps.start()
	keeps.signal(syscall.SIGSTOP)
	return ill{address: keeps.address, keeps: keeps, mend: func() { keeps.signal(syscall.SIGCONT) }, freeze: func() { keeps.signal(syscall.SIGSTOP) }}
}

// A Collector that refuses, is gone or hangs costs requests nothing: what the
// queue cannot hold is dropped and counted, what comes after it is well again
// arrives, and the stop does not wait for one that hangs.
func TestCollectorThatIsNotWell(t *testing.T) {
	if *collectorProgram == "" {
		t.Skip("needs a Collector: scripts/test-otel.sh builds one and runs this")
	}
	for name, make := range map[string]func(*testing.T) ill{"answers 503": answers503, "answers 429": answers429, "is gone": isGone, "hangs": hangs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := make(t)
			w := launchWith(t, newHome(t), []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + c.address, "OTEL_EXPORTER_OTLP_TIMEOUT=1000",
				"OTEL_BSP_MAX_QUEUE_SIZE=8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4", "OTEL_BSP_SCHEDULE_DELAY=50"},
				"--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0")
			w.waitFor(allReady)
			w.servesBeside(c)
			if c.freeze != nil {
				c.freeze()
				w.chat("last", "hello", false, 1)
			}
			began := time.Now()
			if out, code := w.runCommand("down"); code != 0 {
				t.Errorf("down: %d %s", code, out)
			}
			<-w.done
			took := time.Since(began)
			if took > 10*time.Second { // 2 s for the spans, the rest for engines on a busy machine
				t.Errorf("the stop took %v", took)
			}
			t.Logf("the stop took %v", took)
		})
	}
}

// dropsSpans is what the log says, once, of a Collector that is not well.
const dropsSpans = "spans are dropped until the collector takes them again"

// servesBeside wants every request answered while the Collector is ill, and
// spans again once it is well.
func (w *running) servesBeside(c ill) {
	w.t.Helper()
	const requests, room = 40, 8 + 4 // the queue, and the batch under way
	began := time.Now()
	for i := range requests {
		if a := w.chat(fmt.Sprint("s", i), "hello", i%2 == 0, 1); a.code != http.StatusOK || a.err != nil {
			w.t.Fatalf("request %d: %+v", i, a)
		}
	}
	took := time.Since(began)
	await(w.t, 30*time.Second, "the lost spans are counted", func() bool { return w.spansDropped() >= requests-room })
	await(w.t, 30*time.Second, "it is said that spans are dropped", func() bool { return strings.Contains(w.output.String(), dropsSpans) })
	if c.check != nil {
		c.check()
	}
	w.t.Logf("%d requests in %v, %d spans dropped", requests, took, w.spansDropped())
	if c.mend == nil {
		return
	}
	c.mend()
	back := asked{id: "after", path: "/v1/chat/completions", body: `{"model":"qwen3-4b","max_tokens":1,"stream":%v,"messages":[{"role":"user","content":"x"}]}`, status: 200}
	after := await(w.t, 30*time.Second, "spans arrive again", func() bool {
		w.askTraced(back)
		return slices.ContainsFunc(c.keeps.spans(), func(s arrived) bool { return s.Attrs.of("warden.request_id") == back.id })
	})
	if n := strings.Count(w.output.String(), dropsSpans); n != 1 {
		w.t.Errorf("said %d times that spans are dropped", n)
	}
	w.t.Logf("spans arrive %v after the Collector is well", after)
}

func (w *running) spansDropped() int {
	w.t.Helper()
	resp, err := http.Get(w.url + "/metrics")
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nwarden_spans_dropped_total ")
	n := 0
	if _, err := fmt.Sscan(rest, &n); err != nil {
		w.t.Fatalf("no figure of dropped spans: %v", err)
	}
	return n
}
