package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	otelsdk "go.opentelemetry.io/otel/sdk"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientSpan   = "00f067aa0ba902b7"
	clientParent = "00-" + clientTrace + "-" + clientSpan + "-01"
)

var arrived = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func answered() record.Record {
	r := record.New("req-1", "/v1/messages", arrived)
	r.Asked, r.Model, r.Stream, r.Session, r.Client = "claude-sonnet", "qwen3-4b", true, "0123456789abcdef0123456789abcdef", "claude-code"
	r.Replica, r.Reason, r.Attempts, r.Waited = "r1", "sticky", 2, 240*time.Millisecond
	r.Placed, r.FirstByte = arrived.Add(250*time.Millisecond), arrived.Add(time.Second)
	r.FirstToken, r.Ended = arrived.Add(1500*time.Millisecond), arrived.Add(4*time.Second)
	r.Status, r.BytesIn, r.BytesOut, r.Finish = 200, 48_000, 900, "stop"
	r.Usage = dialect.Usage{PromptTokens: 12_000, CachedTokens: 11_000, OutputTokens: 40}
	return r
}

// collector is an OTLP/HTTP receiver.
type collector struct {
	server *httptest.Server
	got    chan *tracepb.TracesData
	header chan http.Header
}

func newCollector(t *testing.T) *collector {
	c := &collector{got: make(chan *tracepb.TracesData, 10), header: make(chan http.Header, 10)}
	c.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if req.Header.Get("Content-Encoding") == "gzip" {
			unpacked, _ := gzip.NewReader(bytes.NewReader(body))
			body, err = io.ReadAll(unpacked)
		}
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil || req.URL.Path != "/v1/traces" {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		c.header <- req.Header
		c.got <- &data
	}))
	t.Cleanup(c.server.Close)
	return c
}

func settings(endpoint string) Settings {
	s := defaults()
	s.Endpoint, _ = url.Parse(endpoint)
	s.Delay = time.Millisecond
	return s
}

// run runs a Tracer until stop is called, which returns when Run has.
func run(t *testing.T, o Options) (tracer *Tracer, stop func()) {
	t.Helper()
	tracer, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- tracer.Run(ctx) }()
	return tracer, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

func flat(attrs []*tracepb.Span_Event) (names string) {
	for _, e := range attrs {
		names += fmt.Sprintf("%s@%v ", e.Name, time.Unix(0, int64(e.TimeUnixNano)).Sub(arrived))
	}
	return names
}

func TestACollectorSeesTheRequest(t *testing.T) {
	c := newCollector(t)
	s := settings(c.server.URL + "/v1/traces")
	s.Gzip, s.Headers = true, http.Header{"Authorization": {"Bearer abc"}}
	s.Resource = []attribute.KeyValue{attribute.String("deployment.environment.name", "lab")}
	tracer, stop := run(t, Options{Settings: s, Version: "1.2.3", Address: "127.0.0.1", Port: 8000, Simulated: true})
	sent, end := tracer.Begin(arrived, record.TraceContext{Parent: clientParent, State: "vendor=1"})
	end(answered())
	stop()
	if h := <-c.header; h.Get("Authorization") != "Bearer abc" || h.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("headers %v", h)
	}
	resource := (<-c.got).ResourceSpans[0]
	for _, want := range []string{`"warden"`, `"1.2.3"`, `"lab"`, `"telemetry.sdk.name"`, `"telemetry.sdk.language"`, `"` + otelsdk.Version() + `"`} {
		if text := resource.Resource.String(); !strings.Contains(text, want) {
			t.Errorf("resource %s lacks %s", text, want)
		}
	}
	span := resource.ScopeSpans[0].Spans[0]
	id := fmt.Sprintf("%x", span.SpanId)
	if got := fmt.Sprintf("%x", span.TraceId); got != clientTrace || fmt.Sprintf("%x", span.ParentSpanId) != clientSpan {
		t.Errorf("trace %s, parent %x: not the client's", got, span.ParentSpanId)
	}
	if sent.TraceID() != clientTrace || !strings.Contains(sent.Parent, id) || sent.State != "vendor=1" {
		t.Errorf("the engine is told %+v, the span is %s", sent, id)
	}
	if span.Name != "chat qwen3-4b" || span.Kind != tracepb.Span_SPAN_KIND_SERVER || span.Status.GetCode() != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("name %q, kind %v, status %v", span.Name, span.Kind, span.Status)
	}
	if d := time.Duration(span.EndTimeUnixNano - span.StartTimeUnixNano); d != 4*time.Second {
		t.Errorf("the span lasts %v", d)
	}
	if got := flat(span.Events); got != "placed@250ms first_byte@1s first_token@1.5s " {
		t.Errorf("events %s", got)
	}
	got := map[string]string{}
	for _, a := range span.Attributes {
		got[a.Key] = strings.Join(strings.Fields(a.Value.String()), " ")
	}
	for key, want := range map[string]string{
		"gen_ai.operation.name": `"chat"`, "gen_ai.provider.name": `"simulated"`, "warden.simulated": "true",
		"gen_ai.request.model": `"claude-sonnet"`, "gen_ai.response.model": `"qwen3-4b"`, "gen_ai.usage.input_tokens": "12000",
		"gen_ai.usage.cache_read.input_tokens": "11000", "gen_ai.usage.output_tokens": "40", "gen_ai.response.finish_reasons": `"stop"`,
		"gen_ai.response.time_to_first_chunk": "1.5", "gen_ai.conversation.id": `"0123456789abcdef0123456789abcdef"`,
		"warden.replica": `"r1"`, "warden.reason": `"sticky"`, "warden.retries": "1", "warden.wait_seconds": "0.24",
		"warden.request_id": `"req-1"`, "server.address": `"127.0.0.1"`, "server.port": "8000",
		"http.response.status_code": "200", "url.path": `"/v1/messages"`,
	} {
		if !strings.Contains(got[key], want) {
			t.Errorf("%s is %s, want %s", key, got[key], want)
		}
	}
	if _, ok := got["error.type"]; ok {
		t.Error("a good answer has an error.type")
	}
}

// The engine's first token lies in the first bytes, of which it is read before
// they are passed on; an answer in one piece has none.
func TestEventsAreInOrder(t *testing.T) {
	together := answered()
	together.FirstToken = together.FirstByte.Add(-5 * time.Microsecond)
	whole := answered()
	whole.Stream = false
	for want, r := range map[string]record.Record{"placed@250ms first_byte@1s first_token@1s ": together, "placed@250ms first_byte@1s ": whole} {
		c := newCollector(t)
		tracer, stop := run(t, Options{Settings: settings(c.server.URL + "/v1/traces")})
		_, end := tracer.Begin(arrived, record.TraceContext{})
		end(r)
		stop()
		if got := flat((<-c.got).ResourceSpans[0].ScopeSpans[0].Spans[0].Events); got != want {
			t.Errorf("events %s, want %s", got, want)
		}
	}
}

// A batch that holds one text which is no UTF-8 cannot be encoded at all, so a
// client must not be able to bring one in.
func TestNamesOfAnyBytes(t *testing.T) {
	for name, asked := range map[string]string{
		"cut in the middle of a letter": strings.Repeat("a", maxText-1) + "é", "no letters": "a\xff\xfeb",
	} {
		c := newCollector(t)
		tracer, stop := run(t, Options{Settings: settings(c.server.URL + "/v1/traces")})
		r := answered()
		r.Asked = asked
		_, end := tracer.Begin(arrived, record.TraceContext{})
		end(r)
		stop()
		if n := tracer.Dropped(); n != 0 || len(c.got) != 1 {
			t.Errorf("%s: %d spans dropped, %d batches came", name, n, len(c.got))
		}
	}
}

func TestFailuresAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		edit      func(*record.Record)
		errorType string
		isError   bool
	}{
		"complete":     {func(*record.Record) {}, "", false},
		"no place":     {func(r *record.Record) { r.Status, r.Cause = 429, "queue_full" }, "queue_full", false},
		"engine":       {func(r *record.Record) { r.Status, r.Cause = 400, "engine" }, "400", false},
		"no replica":   {func(r *record.Record) { r.Status, r.Cause = 503, "no_replica" }, "no_replica", true},
		"broken off":   {func(r *record.Record) { r.Failed = true }, "cut", true},
		"client left":  {func(r *record.Record) { r.Aborted = true }, "cancelled", false},
		"engine's 500": {func(r *record.Record) { r.Status, r.Cause = 500, "engine" }, "500", true},
	} {
		r := answered()
		c.edit(&r)
		if got := errorType(r); got != c.errorType {
			t.Errorf("%s: error.type %q, want %q", name, got, c.errorType)
		}
		kept := &kept{}
		provider := sdk.NewTracerProvider(sdk.WithSampler(sdk.AlwaysSample()), sdk.WithSpanProcessor(kept))
		tracer := Tracer{tracer: provider.Tracer("")}
		_, end := tracer.Begin(arrived, record.TraceContext{})
		end(r)
		if got := kept.span.Status().Code.String() == "Error"; got != c.isError {
			t.Errorf("%s: the span's status is %v", name, kept.span.Status())
		}
	}
}

// kept keeps the last span.
type kept struct {
	queue
	span sdk.ReadOnlySpan
}

func (k *kept) OnEnd(s sdk.ReadOnlySpan) { k.span = s }

func TestClientsDecideWhetherTheyAreSampled(t *testing.T) {
	c := newCollector(t)
	tracer, stop := run(t, Options{Settings: settings(c.server.URL + "/v1/traces")})
	sent, end := tracer.Begin(arrived, record.TraceContext{Parent: clientParent[:len(clientParent)-1] + "0"})
	end(answered())
	if sent.TraceID() != clientTrace || !strings.HasSuffix(sent.Parent, "-00") {
		t.Errorf("the engine is told %q, want the client's trace, not sampled", sent.Parent)
	}
	fresh, end := tracer.Begin(arrived, record.TraceContext{Parent: "nonsense", State: "x=y"})
	end(answered())
	stop()
	if fresh.TraceID() == "" || fresh.State != "" {
		t.Errorf("without a client's trace the engine is told %+v", fresh)
	}
	data := <-c.got
	if n := len(data.ResourceSpans[0].ScopeSpans[0].Spans); n != 1 || len(data.ResourceSpans[0].ScopeSpans[0].Spans[0].ParentSpanId) != 0 {
		t.Errorf("%d spans, want the new trace's only, without parent", n)
	}
}

// A collector that is gone: a port that nobody listens on, and one that takes
// connections and says nothing.
func TestADeadCollectorCostsNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, address := range map[string]string{"silent": silent.Addr().String(), "gone": gone.Addr().String()} {
		t.Run(name, func(t *testing.T) {
			s := settings("http://" + address + "/v1/traces")
			s.Queue, s.Batch, s.Timeout = 64, 16, 100*time.Millisecond
			var said bytes.Buffer
			tracer, stop := run(t, Options{Settings: s, Log: slog.New(slog.NewTextHandler(&said, nil))})
			const spans = 5000
			for range spans {
				_, end := tracer.Begin(arrived, record.TraceContext{})
				end(answered())
			}
			stop() // bounded by flushTime
			if got := tracer.Dropped(); got != spans {
				t.Errorf("%d spans are counted as dropped, want %d", got, spans)
			}
			if n := strings.Count(said.String(), "level=WARN"); n != 1 {
				t.Errorf("%d warnings:\n%s", n, said.String())
			}
		})
	}
}

// What a span costs the goroutine that serves the request.
func BenchmarkSpan(b *testing.B) {
	q := newQueue(Settings{Queue: 1}, &exporter{}, slog.New(slog.DiscardHandler)) // nobody takes them: the rest is dropped
	tracer := spansFor(q)
	r := answered()
	b.ReportAllocs()
	for b.Loop() {
		_, end := tracer.Begin(arrived, record.TraceContext{Parent: clientParent})
		end(r)
	}
}
