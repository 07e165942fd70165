package server

import (
	"net/http"
	"testing"
)

const readTool = `"tools":[{"type":"function","function":{"name":"Read","parameters":{"type":"object"}}}]`

// The golden files are whole answers. In virtual time the clock always starts
// at the same instant, so ids and times are the same in every run.
func TestWireShapes(t *testing.T) {
	say := `[[sim:say hi]]`
	call := `[[tool:Read {\"path\":\"a.go\"}]]`
	tests := []struct{ name, path, body string }{
		{"chat", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"` + say + `"}]}`},
		{"chat_tool", "/v1/chat/completions", `{"messages":[{"role":"user","content":"` + call + `"}],` + readTool + `}`},
		{"chat_stream", "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"` + say + `"}]}`},
		{"chat_stream_usage", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"` + say + `"}]}`},
		{"chat_stream_continuous", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},"messages":[{"role":"user","content":"` + say + `"}]}`},
		{"chat_stream_tool", "/v1/chat/completions", `{"stream":true,"messages":[{"role":"user","content":"` + call + `"}],` + readTool + `}`},
		{"completion", "/v1/completions", `{"prompt":"once upon a time","max_tokens":4}`},
		{"completion_stream", "/v1/completions", `{"prompt":"once upon a time","max_tokens":3,"stream":true,"stream_options":{"include_usage":true}}`},
		{"messages", "/v1/messages", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"` + say + `"}]}`},
		{"messages_tool", "/v1/messages", `{"model":"m","max_tokens":100,"messages":[{"role":"user","content":"` + call + `"}],"tools":[{"name":"Read"}]}`},
		{"messages_stream", "/v1/messages?beta=true", `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"` + say + `"}]}`},
		{"messages_stream_tool", "/v1/messages", `{"model":"m","max_tokens":100,"stream":true,"messages":[{"role":"user","content":"` + call + `"}],"tools":[{"name":"Read"}]}`},
		{"count_tokens", "/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"` + say + `"}]}`},
		{"responses", "/v1/responses", `{"input":"` + say + `"}`},
		{"responses_stream", "/v1/responses", `{"stream":true,"input":"` + say + `"}`},
		{"responses_stream_tool", "/v1/responses", `{"stream":true,"input":"` + call + `","tools":[{"type":"function","name":"Read"}]}`},
		{"embeddings", "/v1/embeddings", `{"input":["a b"],"dimensions":2}`},
		{"tokenize", "/tokenize", `{"prompt":"one two","return_token_strs":true}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, slow(), func(t *testing.T, h *harness) {
				status, body := h.call("POST", tt.path, tt.body)
				if status != http.StatusOK {
					t.Fatalf("status %d: %s", status, body)
				}
				golden(t, tt.name+".golden", []byte(body+"\n"))
			})
		})
	}
}

func TestStatusShapes(t *testing.T) {
	for name, path := range map[string]string{"models": "/v1/models", "version": "/version", "metrics": "/metrics", "health": "/health"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, slow(), func(t *testing.T, h *harness) {
				h.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"[[sim:say hi]]"}]}`)
				status, body := h.call("GET", path, "")
				if status != http.StatusOK {
					t.Fatalf("status %d: %s", status, body)
				}
				golden(t, name+".golden", []byte(body+"\n"))
			})
		})
	}
}
