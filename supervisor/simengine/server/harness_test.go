package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var rewrite = flag.Bool("update", false, "rewrite the golden files")

// pipeListener accepts in-memory connections, so that HTTP runs in virtual
// time.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// harness is one engine behind an in-memory connection, in a synctest bubble.
type harness struct {
	t      *testing.T
	server *Server
	client *http.Client
}

// bubble runs a test against an engine in virtual time.
func bubble(t *testing.T, o Options, test func(t *testing.T, h *harness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		listener := newPipeListener()
		web := &http.Server{Handler: s, ConnContext: ConnContext}
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Run(ctx) })
		wg.Go(func() { _ = web.Serve(listener) })
		transport := &http.Transport{DialContext: listener.dial}
		test(t, &harness{t: t, server: s, client: &http.Client{Transport: transport}})
		stop()
		_ = web.Close()
		transport.CloseIdleConnections()
		wg.Wait()
	})
}

func (h *harness) do(ctx context.Context, method, path, body string, header ...string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return h.client.Do(r)
}

// call returns the status and the whole body.
func (h *harness) call(method, path, body string, header ...string) (int, string) {
	h.t.Helper()
	resp, err := h.do(h.t.Context(), method, path, body, header...)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// post returns the decoded answer of a request that must succeed.
func (h *harness) post(path, body string) map[string]any {
	h.t.Helper()
	status, raw := h.call("POST", path, body)
	if status != http.StatusOK {
		h.t.Fatalf("%s: status %d: %s", path, status, raw)
	}
	var out map[string]any
	if err := json.Unmarshal([]byte(raw), &out); err != nil {
		h.t.Fatalf("%s: %v in %s", path, err, raw)
	}
	return out
}

// dig goes into decoded JSON: dig(v, "choices", 0, "message").
func dig(v any, path ...any) any {
	for _, step := range path {
		switch key := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[key]
		case int:
			list, _ := v.([]any)
			if key >= len(list) {
				return nil
			}
			v = list[key]
		}
	}
	return v
}

// events reads a stream's events; an event is its name and its data.
type sseEvent struct{ name, data string }

func readEvents(r io.Reader) (events []sseEvent, err error) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	var ev sseEvent
	for scanner.Scan() {
		line := scanner.Text()
		switch {
		case line == "":
			events = append(events, ev)
			ev = sseEvent{}
		case strings.HasPrefix(line, "event: "):
			ev.name = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			ev.data = line[len("data: "):]
		}
	}
	return events, scanner.Err()
}

// stream returns all events of a streamed answer and how reading ended.
func (h *harness) stream(path, body string) ([]sseEvent, error) {
	h.t.Helper()
	resp, err := h.do(h.t.Context(), "POST", path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream; charset=utf-8" {
		h.t.Fatalf("%s: status %d, content type %q", path, resp.StatusCode, got)
	}
	return readEvents(resp.Body)
}

func (h *harness) fault(values map[string]string) {
	h.t.Helper()
	if err := h.server.Faults().Apply(values); err != nil {
		h.t.Fatal(err)
	}
}

// golden compares with testdata/name, or writes it with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(bytes.ReplaceAll(got, []byte("\r"), nil))); diff != "" {
		t.Errorf("%s (run with -update if this is meant):\n%s", name, diff)
	}
}

// slow is an engine whose steps take 10 ms each and 1 ms for each token.
func slow() Options {
	return Options{
		Model: "org/model", Served: []string{"m", "org/model"}, PromptTokensDetails: true,
		Engine: core.Config{Cost: core.Cost{Base: 10 * time.Millisecond, PerToken: 1e6}},
	}
}
