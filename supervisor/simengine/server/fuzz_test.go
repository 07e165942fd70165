package server

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// FuzzBodies sends any body to any API of a small instant engine: each must be
// answered, without a panic and in bounded time.
func FuzzBodies(f *testing.F) {
	paths := []string{
		"/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens",
		"/v1/responses", "/v1/embeddings", "/tokenize", "/detokenize", "/sim/fault",
	}
	for _, seed := range []struct {
		path int
		body string
	}{
		{0, `{"stream":true,"n":2,"stop":"a","messages":[{"role":"system","content":"x"},{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url"}]}]}`},
		{0, `{"messages":[{"role":"user","content":"[[tool:A {\"b\":1}]]+[[tool:C {}]]"}],"tools":[{"function":{"name":"A"}}],"max_tokens":9}`},
		{0, `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"a","arguments":"{"}}]}],"allowed_token_ids":[3,281474976710753]}`},
		{1, `{"prompt":[[844424936779375]],"echo":true,"max_tokens":3}`},
		{1, `{"prompt":["a","b"],"ignore_eos":true}`},
		{2, `{"max_tokens":9,"stream":true,"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":"x"}]},{"role":"system","content":"y"}]}`},
		{4, `{"stream":true,"instructions":"i","input":[{"role":"developer","content":"d"},{"type":"function_call","name":"n","arguments":"{}"},{"type":"function_call_output","output":"o"}]}`},
		{5, `{"input":"a","dimensions":3}`},
		{6, `{"messages":[{"role":"user","content":"hi"}],"return_token_strs":true}`},
		{7, `{"tokens":[1970324836974592]}`},
		{8, `{"slow":2,"stall":null,"error":"503:0.5"}`},
	} {
		f.Add(seed.path, seed.body)
	}
	f.Fuzz(func(t *testing.T, path int, body string) {
		if strings.Contains(body, "sim:") || strings.Contains(body, "delay") || strings.Contains(body, "stall") {
			return // asks for waiting or for a broken connection
		}
		s, err := New(Options{Engine: core.Config{Blocks: 30}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
		defer stop()
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.Run(ctx) })
		r := httptest.NewRequestWithContext(ctx, "POST", paths[uint(path)%uint(len(paths))], strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if ctx.Err() != nil || w.Code < 200 || w.Body.Len() == 0 {
			t.Errorf("%s %q: status %d, %d bytes, %v", r.URL.Path, body, w.Code, w.Body.Len(), ctx.Err())
		}
		stop()
		wg.Wait()
	})
}
