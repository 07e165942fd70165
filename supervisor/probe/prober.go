package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// Prober asks one engine how it is, over HTTP on a unix socket or TCP.
type Prober struct {
	base   string
	client *http.Client
	fresh  *http.Client // a new connection for each question
}

const (
	// probeIdle: uvicorn, in front of vLLM, closes idle connections after 5 s; reusing one at that moment fails.
	probeIdle      = 3 * time.Second
	maxAnswer      = 1 << 20  // of anything but metrics, in bytes
	maxMetrics     = 16 << 20 // vLLM's own are 100 kB
	maxErrorInText = 300
)

// Dial connects to an address, as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// New understands "unix:/path" and "http://host:port". A nil dial is the network.
func New(address string, dial Dial) (*Prober, error) {
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	p := &Prober{base: strings.TrimSuffix(address, "/")}
	if path, found := strings.CutPrefix(address, "unix:"); found {
		if !strings.HasPrefix(path, "/") {
			return nil, fmt.Errorf("engine address %q: the socket's path must be absolute", address)
		}
		p.base = "http://engine"
		network := dial
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return network(ctx, "unix", path) }
	} else if u, err := url.Parse(address); err != nil || u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("engine address %q: want unix:/path or http://host:port", address)
	}
	kept := &http.Transport{IdleConnTimeout: probeIdle, DisableCompression: true, DialContext: dial}
	fresh := kept.Clone()
	fresh.DisableKeepAlives = true
	p.client, p.fresh = &http.Client{Transport: kept}, &http.Client{Transport: fresh}
	return p, nil
}

// Close lets go of idle connections.
func (p *Prober) Close() { p.client.CloseIdleConnections() }

// Result is one answer of /health, or why there was none.
type Result struct {
	status int
	err    error
}

// Good reports whether the engine is well.
func (r Result) Good() bool { return r.err == nil && r.status == http.StatusOK }

// Dead reports whether the engine said so itself: vLLM answers 503 once its core is known dead and never recovers.
func (r Result) Dead() bool { return r.err == nil && r.status == http.StatusServiceUnavailable }

// late reports whether the answer did not come in time, which tells more than a wrong one: nothing may run there.
func (r Result) late() bool { return errors.Is(r.err, context.DeadlineExceeded) }

// refused reports whether nobody listens at the address.
func (r Result) refused() bool { return Refused(r.err) }

// unreachable says why nobody is reached at the address. An engine whose socket was removed listens on, unseen.
func (r Result) unreachable() string {
	if op, ok := errors.AsType[*net.OpError](r.err); ok && op.Addr != nil && errors.Is(r.err, os.ErrNotExist) {
		return fmt.Sprintf("its socket %s was removed", op.Addr)
	}
	return "the engine no longer listens"
}

// Refused reports whether an error means that nobody listens.
func Refused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, os.ErrNotExist)
}

// Own reports whether an error is a limit of this process or its machine, such as its open files: the engine was not
// asked, so it says nothing of it.
func Own(err error) bool {
	for _, limit := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOSPC, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return false
}

func (r Result) String() string {
	switch {
	case r.err == nil:
		return fmt.Sprintf("/health answers %d", r.status)
	case r.late():
		return "/health is slow"
	}
	return "/health fails: " + r.err.Error()
}

// Health asks for /health, for at most limit, over a new connection: one from before goes on working when no other can be
// made, and the next request may need one.
func (p *Prober) Health(ctx context.Context, limit time.Duration) Result {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	status, _, err := do(ctx, p.fresh, http.MethodGet, p.base+"/health", nil, maxAnswer)
	return Result{status: status, err: err}
}

// Served is what an engine says of one model it serves.
type Served struct {
	ID          string `json:"id"`
	MaxModelLen int    `json:"max_model_len"`
}

// Models checks that the engine serves the name, which also proves that it is our engine that listens there.
func (p *Prober) Models(ctx context.Context, name string) (Served, error) {
	var list struct {
		Data []Served `json:"data"`
	}
	if err := p.getJSON(ctx, "/v1/models", &list); err != nil {
		return Served{}, err
	}
	var names []string
	for _, m := range list.Data {
		if m.ID == name {
			return m, nil
		}
		names = append(names, m.ID)
	}
	return Served{}, fmt.Errorf("/v1/models lists %q, not %q", names, name)
}

// Version is the engine's own, empty when it does not tell.
func (p *Prober) Version(ctx context.Context) string {
	var v struct {
		Version string `json:"version"`
	}
	if p.getJSON(ctx, "/version", &v) != nil {
		return ""
	}
	return v.Version
}

func (p *Prober) getJSON(ctx context.Context, path string, into any) error {
	status, body, err := p.do(ctx, http.MethodGet, path, nil, maxAnswer)
	if err != nil {
		return err
	}
	if status != http.StatusOK {
		return fmt.Errorf("%s answers %d: %s", path, status, shorten(body))
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Ask has the engine work: one token, or one embedding where the model makes no text. A model without a chat template
// refuses chats but can be served through completions.
func (p *Prober) Ask(ctx context.Context, model string) error {
	attempts := []struct {
		path string
		body map[string]any
	}{
		{"/v1/chat/completions", map[string]any{"model": model, "max_tokens": 1, "temperature": 0,
			"messages": []map[string]string{{"role": "user", "content": "ping"}}}},
		{"/v1/completions", map[string]any{"model": model, "max_tokens": 1, "temperature": 0, "prompt": "ping"}},
		{"/v1/embeddings", map[string]any{"model": model, "input": "ping"}},
	}
	var errs []error
	for _, a := range attempts {
		body, err := json.Marshal(a.body)
		if err != nil {
			return err
		}
		status, answer, err := p.do(ctx, http.MethodPost, a.path, body, maxAnswer)
		if err != nil {
			return fmt.Errorf("%s: %w", a.path, err)
		}
		if status == http.StatusOK {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s answers %d: %s", a.path, status, shorten(answer)))
		if status != http.StatusBadRequest && status != http.StatusNotFound {
			break // not a question of which API the model has
		}
	}
	return errors.Join(errs...)
}

// Metrics returns the engine's counters and the text they were read from.
func (p *Prober) Metrics(ctx context.Context, engine supervisor.Engine) (supervisor.EngineStats, []byte, error) {
	status, body, err := p.do(ctx, http.MethodGet, "/metrics", nil, maxMetrics)
	if err != nil {
		return supervisor.EngineStats{}, nil, err
	}
	if status != http.StatusOK {
		return supervisor.EngineStats{}, nil, fmt.Errorf("/metrics answers %d", status)
	}
	stats, err := engine.ParseStats(bytes.NewReader(body), time.Now())
	return stats, body, err
}

func (p *Prober) do(ctx context.Context, method, path string, body []byte, limit int64) (int, []byte, error) {
	return do(ctx, p.client, method, p.base+path, body, limit)
}

func do(ctx context.Context, client *http.Client, method, target string, body []byte, limit int64) (int, []byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, withoutURL(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	return resp.StatusCode, answer, err
}

// withoutURL drops the invented host from an error's text: it would only puzzle.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func shorten(body []byte) string {
	text := strings.Join(strings.Fields(string(body)), " ")
	if len(text) > maxErrorInText {
		text = strings.ToValidUTF8(text[:maxErrorInText], "") + "..."
	}
	return text
}
