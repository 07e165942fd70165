package scan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// agentBody is a body of about size bytes as a coding agent sends it: system
// text, 25 tools, and tool calls and results full of escaped source code.
func agentBody(size int) []byte {
	type m = map[string]any
	code := strings.Repeat("func walk(n *node) error {\n\treturn fmt.Errorf(\"cannot read %q: %w\", n.name, err)\n}\n", 20)
	var tools []any
	for i := range 25 {
		tools = append(tools, m{
			"name":         fmt.Sprintf("tool_%d", i),
			"description":  strings.Repeat("Reads a file from the local file system.\n- The path must be absolute.\n", 20),
			"input_schema": m{"type": "object", "properties": m{"path": m{"type": "string", "description": "where"}}},
		})
	}
	messages := []any{m{"role": "user", "content": "fix the bug"}}
	for i := 0; len(messages)*len(code)/2 < size-50_000; i++ {
		id := fmt.Sprintf("toolu_%04d", i)
		messages = append(messages,
			m{"role": "assistant", "content": []any{
				m{"type": "text", "text": "I read the next file."},
				m{"type": "tool_use", "id": id, "name": "tool_1", "input": m{"path": "/src/a.go", "limit": i}},
			}},
			m{"role": "user", "content": []any{m{"type": "tool_result", "tool_use_id": id, "content": code}}})
	}
	body, err := json.Marshal(m{"model": "m", "stream": true, "max_tokens": 4096, "tools": tools, "messages": messages,
		"system": []any{m{"type": "text", "text": strings.Repeat("You are an agent. Today is 2026-01-02.\n", 150)}}})
	if err != nil {
		panic(err)
	}
	return body
}

func BenchmarkScan(b *testing.B) {
	for _, size := range []int{100_000, 1_000_000} {
		body := agentBody(size)
		var plain bytes.Buffer // a second form: one long text, few escapes
		fmt.Fprintf(&plain, `{"model":"m","messages":[{"role":"user","content":"%s"}]}`, strings.Repeat("plain words ", size/12))
		for name, body := range map[string][]byte{"agent": body, "text": plain.Bytes()} {
			b.Run(fmt.Sprintf("%s/%dKB/scan", name, len(body)/1000), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if !Scan("/v1/messages", body).Valid {
						b.Fatal("not valid")
					}
				}
			})
			b.Run(fmt.Sprintf("%s/%dKB/gjson.ValidBytes", name, len(body)/1000), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if !gjson.ValidBytes(body) {
						b.Fatal("not valid")
					}
				}
			})
		}
	}
}

func BenchmarkMemo(b *testing.B) {
	body := agentBody(100_000)
	m := NewMemo()
	m.Scan("/v1/messages", body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		m.Scan("/v1/messages", body)
	}
}
