package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/configs/jsonschema"
	"github.com/lm-warden/warden/supervisor/control"
)

// collector is an OTLP/HTTP receiver; spans come out one by one.
func collector(t *testing.T) (url string, spans chan *tracepb.Span) {
	t.Helper()
	spans = make(chan *tracepb.Span, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil {
			http.Error(w, "not OTLP", http.StatusBadRequest)
			return
		}
		for _, r := range data.ResourceSpans {
			for _, s := range r.ScopeSpans {
				for _, span := range s.Spans {
					spans <- span
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, spans
}

func attribute(span *tracepb.Span, key string) string {
	for _, a := range span.Attributes {
		if a.Key == key {
			return strings.Trim(strings.TrimPrefix(strings.Join(strings.Fields(a.Value.String()), ""), "string_value:"), `"`)
		}
	}
	return ""
}

// ask sends one turn with the headers of a traced client.
func (w *running) ask(ctx context.Context, body string, headers ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	return http.DefaultClient.Do(req)
}

// One turn, one that is refused and one whose client leaves: a span and a line
// for each, with the same ids.
func TestSpansAndLinesOfADemo(t *testing.T) {
	url, spans := collector(t)
	home := newHome(t)
	log := filepath.Join(home, "access.log")
	w := launchWith(t, home, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url, "OTEL_BSP_SCHEDULE_DELAY=20", "OTEL_SERVICE_NAME=test"},
		"--demo", "--demo-sessions", "0", "--dp", "2", "--listen", "127.0.0.1:0", "--access-log", log)
	w.waitFor(func(s control.Status) bool { return len(s.Replicas) == 2 && allReady(s) })

	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	const body = `{"model":"qwen3-4b","stream":true,"max_tokens":%d,"messages":[{"role":"user","content":"the secret word"}]}`
	resp, err := w.ask(t.Context(), fmt.Sprintf(body, 8), "Traceparent", "00-"+trace+"-"+parent+"-01", "X-Request-Id", "turn-1", "X-Session-Id", "s1")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if got := resp.Header.Get("X-Request-Id"); got != "turn-1" {
		t.Errorf("the answer's request id is %q", got)
	}
	turn := <-spans
	if fmt.Sprintf("%x", turn.TraceId) != trace || fmt.Sprintf("%x", turn.ParentSpanId) != parent || turn.Name != "chat qwen3-4b" {
		t.Errorf("span %q of trace %x below %x, want the client's", turn.Name, turn.TraceId, turn.ParentSpanId)
	}
	if attribute(turn, "warden.replica") != resp.Header.Get("X-Warden-Replica") || attribute(turn, "warden.request_id") != "turn-1" ||
		attribute(turn, "gen_ai.provider.name") != "simulated" {
		t.Errorf("attributes %v", turn.Attributes)
	}

	resp, err = w.ask(t.Context(), "[]", "X-Request-Id", "turn-2")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if span := <-spans; attribute(span, "error.type") != "bad_request" {
		t.Errorf("the refused request's span: %v", span.Attributes)
	}

	ctx, leave := context.WithCancel(t.Context())
	resp, err = w.ask(ctx, fmt.Sprintf(body, 4000), "X-Request-Id", "turn-3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	leave()
	resp.Body.Close()
	if span := <-spans; attribute(span, "error.type") != "cancelled" {
		t.Errorf("the span of a client that left: %v", span.Attributes)
	}

	if out, code := w.runCommand("down"); code != 0 {
		t.Fatalf("down: %d %s", code, out)
	}
	<-w.done
	lines := linesOf(t, log)
	if len(lines) != 3 {
		t.Fatalf("%d lines, want one for each request", len(lines))
	}
	for i, want := range []struct{ id, outcome, cause string }{{"turn-1", "complete", ""}, {"turn-2", "refused", "bad_request"}, {"turn-3", "cancelled", ""}} {
		if l := lines[i]; l.RequestID != want.id || string(l.Outcome) != want.outcome || l.Cause != want.cause || !l.Simulated {
			t.Errorf("line %d: %+v", i+1, l)
		}
	}
	first := lines[0]
	if first.TraceID != trace || first.Session != attribute(turn, "warden.session") || first.PromptTokens == nil || first.OutputTokens == nil ||
		*first.OutputTokens != 8 || first.TTFTSeconds == nil {
		t.Errorf("the first line: %+v", first)
	}
}

// linesOf reads a log and holds each line to the published schema.
func linesOf(t *testing.T, path string) []accesslog.Line {
	t.Helper()
	schema, err := jsonschema.Decode(configs.AccessLogSchema())
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(content), "secret word") {
		t.Error("the log holds what a client said")
	}
	for text := range strings.Lines(string(content)) {
		for _, fault := range schema.Check([]byte(text), true) {
			t.Errorf("%s: %s", fault, text)
		}
	}
	lines, cut, err := accesslog.Read(strings.NewReader(string(content)), path)
	if err != nil || cut {
		t.Fatalf("cut %v, %v", cut, err)
	}
	return lines
}

// A collector that takes connections and never answers, and a log on a full
// disk: requests are answered as ever, what is lost is counted, and the stop
// does not wait.
func TestRecordersThatFailCostNothing(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this machine has no /dev/full")
	}
	w := launchWith(t, newHome(t), []string{"WARDEN_TRACING_ENDPOINT=http://" + silent.Addr().String(), "OTEL_BSP_MAX_QUEUE_SIZE=4", "OTEL_BSP_SCHEDULE_DELAY=20"},
		"--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0", "--access-log", "/dev/full")
	w.waitFor(allReady)
	const requests = 40
	for i := range requests {
		if a := w.chat(fmt.Sprint("s", i), "hello", false, 1); a.code != http.StatusOK || a.err != nil {
			t.Fatalf("request %d: %+v", i, a)
		}
	}
	await(t, 10*time.Second, "the lost lines and spans are counted", func() bool {
		resp, err := http.Get(w.url + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(text), fmt.Sprintf("\nwarden_access_log_lines_dropped_total %d\n", requests)) &&
			!strings.Contains(string(text), "\nwarden_spans_dropped_total 0\n")
	})
	began := time.Now()
	if out, code := w.runCommand("down"); code != 0 {
		t.Fatalf("down: %d %s", code, out)
	}
	<-w.done
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if n := strings.Count(w.output.String(), "access log lines are dropped"); n != 1 {
		t.Errorf("said %d times that lines are dropped:\n%s", n, w.output)
	}
}

func TestRecordersThatCannotBeOpened(t *testing.T) {
	for _, c := range []struct {
		env, want string
		code      int
	}{
		{"WARDEN_ACCESS_LOG=/nowhere/access.log", "cannot write the access log: open /nowhere/access.log", 4},
		{"WARDEN_TRACING_ENDPOINT=localhost:4318", `tracing endpoint "localhost:4318": must be the address of a collector`, 4},
	} {
		home := newHome(t)
		cmd := upCommand("--demo", "--listen", "127.0.0.1:0")
		cmd.Env, cmd.Dir = append(environment(home), c.env), home
		out, _ := cmd.CombinedOutput()
		if !strings.Contains(string(out), c.want) || cmd.ProcessState.ExitCode() != c.code {
			t.Errorf("%s: exit %d\n%s", c.env, cmd.ProcessState.ExitCode(), out)
		}
	}
}
