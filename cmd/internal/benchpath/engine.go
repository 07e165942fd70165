package benchpath

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// engine answers as vLLM does and computes nothing: what it costs is the cost
// of the bytes. Each piece of text holds the time at which it was sent.
type engine struct {
	model string
	clock clock
	// Bodies are read into buffers that are used again.
	buffers sync.Pool

	running, prompts, pieces atomic.Int64
}

// Figures that an engine reports of itself. Its cache must never be what a
// router's decision turns on.
const (
	contextTokens = 1 << 20
	blockTokens   = 16
	blocks        = 1 << 24
	charsPerToken = 4
)

func newEngine(model string) (*engine, error) {
	c, err := newClock()
	if err != nil {
		return nil, err
	}
	e := &engine{model: model, clock: c}
	e.buffers.New = func() any { return new(bytes.Buffer) }
	return e, nil
}

func (e *engine) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) { answer(w, map[string]string{"version": "0.32.0"}) })
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"object": "list", "data": []any{map[string]any{
			"id": e.model, "object": "model", "created": time.Now().Unix(), "owned_by": "vllm", "root": e.model, "max_model_len": contextTokens,
		}}})
	})
	mux.HandleFunc("GET /metrics", e.metrics)
	mux.HandleFunc("POST /v1/chat/completions", e.chat)
	return mux
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

func (e *engine) metrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	label := fmt.Sprintf(`{engine="0",model_name=%q}`, e.model)
	for _, m := range []struct {
		name, kind string
		value      int64
	}{
		{"num_requests_running", "gauge", e.running.Load()}, {"num_requests_waiting", "gauge", 0}, {"kv_cache_usage_perc", "gauge", 0},
		{"prompt_tokens_total", "counter", e.prompts.Load()}, {"generation_tokens_total", "counter", e.pieces.Load()},
		{"prefix_cache_queries_total", "counter", e.prompts.Load()}, {"prefix_cache_hits_total", "counter", 0},
		{"num_preemptions_total", "counter", 0},
	} {
		fmt.Fprintf(w, "# TYPE vllm:%s %s\nvllm:%s%s %d\n", m.name, m.kind, m.name, label, m.value)
	}
	fmt.Fprintf(w, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"%d\",engine=\"0\",num_gpu_blocks=\"%d\"} 1\n", blockTokens, blocks)
}

func (e *engine) chat(w http.ResponseWriter, r *http.Request) {
	e.running.Add(1)
	defer e.running.Add(-1)
	body := e.buffers.Get().(*bytes.Buffer)
	body.Reset()
	_, err := body.ReadFrom(r.Body)
	s, stream, usage := findScript(body.Bytes()), says(body.Bytes(), "stream"), says(body.Bytes(), "include_usage")
	prompt := body.Len() / charsPerToken
	e.buffers.Put(body)
	if err != nil {
		return // the client has gone
	}
	e.prompts.Add(int64(prompt))
	if !stream {
		answer(w, map[string]any{
			"id": e.id(), "object": "chat.completion", "created": time.Now().Unix(), "model": e.model,
			"choices": []any{map[string]any{
				"index": 0, "message": map[string]any{"role": "assistant", "content": string(appendPiece(nil, e.clock.now()))},
				"finish_reason": "stop",
			}},
			"usage": usageOf(prompt, 1),
		})
		e.pieces.Add(1)
		return
	}
	e.stream(w, r, s, prompt, usage)
}

func usageOf(prompt, pieces int) map[string]any {
	return map[string]any{
		"prompt_tokens": prompt, "completion_tokens": pieces, "total_tokens": prompt + pieces,
		"prompt_tokens_details": map[string]int{"cached_tokens": 0},
	}
}

func (e *engine) id() string { return fmt.Sprintf("chatcmpl-%016x", e.clock.now()) }

// stream writes each piece when its time has come, or at once when that has
// passed, and flushes it, as vLLM does.
func (e *engine) stream(w http.ResponseWriter, r *http.Request, s script, prompt int, usage bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	flush := w.(http.Flusher).Flush // a *http.response of HTTP/1.1 always is one
	head := fmt.Sprintf(`data: {"id":%q,"object":"chat.completion.chunk","created":%d,"model":%q,"choices":[`, e.id(), time.Now().Unix(), e.model)
	_, _ = io.WriteString(w, head+`{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`+"\n\n")
	flush()
	before := []byte(head + `{"index":0,"delta":{"content":"`)
	after := []byte(`"},"logprobs":null,"finish_reason":null,"token_ids":null}]}` + "\n\n")
	event := make([]byte, 0, len(before)+stampLength+len(after))
	began := time.Now()
	for i := range s.Events {
		if wait := s.Interval*time.Duration(i) - time.Since(began); s.Interval > 0 && wait > 0 {
			time.Sleep(wait)
		}
		event = append(appendPiece(append(event[:0], before...), e.clock.now()), after...)
		if _, err := w.Write(event); err != nil || r.Context().Err() != nil {
			return // the client has gone
		}
		flush()
		e.pieces.Add(1)
	}
	_, _ = io.WriteString(w, head+`{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}`+"\n\n")
	if usage {
		u, _ := json.Marshal(usageOf(prompt, s.Events)) // numbers always marshal
		_, _ = fmt.Fprintf(w, "%s],\"usage\":%s}\n\n", head, u)
	}
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// A piece of text is "@", the time in 19 digits, and a space.
const (
	stampMark   = '@'
	stampDigits = 19 // of the largest int64
	stampLength = stampDigits + 2
)

func appendPiece(to []byte, at int64) []byte {
	digits := strconv.AppendInt(make([]byte, 0, stampDigits), at, 10)
	to = append(to, stampMark)
	for range stampDigits - len(digits) {
		to = append(to, '0')
	}
	return append(append(to, digits...), ' ')
}

// serve answers on the listeners until one of them is closed.
func (e *engine) serve(keepAlive time.Duration, listeners ...net.Listener) error {
	server := &http.Server{Handler: e.handler(), IdleTimeout: keepAlive, ErrorLog: log.New(io.Discard, "", 0)}
	defer server.Close()
	ended := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { ended <- server.Serve(l) }()
	}
	err := <-ended
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
