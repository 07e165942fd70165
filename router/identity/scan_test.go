package identity

import (
	"net/http"
	"testing"
)

const claudeSample = `{"model":"m","max_tokens":4096,"stream":true,"system":[{"type":"text","text":"You are an agent."}],"messages":[{"role":"user","content":[{"type":"text","text":"task","cache_control":{"type":"ephemeral"}}]}],"tools":[{"name":"Read","input_schema":{"type":"object"}}],"metadata":{"user_id":"{\"device_id\":\"00ff\",\"account_uuid\":\"\",\"session_id\":\"6f0c0000-0000-4000-8000-00000000beef\"}"}}`

func TestScanClaudeSample(t *testing.T) {
	b := Scan("/v1/messages", []byte(claudeSample))
	if !b.Valid || b.Model != "m" || !b.Stream || b.MaxTokens != 4096 || b.Tools != 1 || len(b.Chain) != 1 || b.FirstUser != 0 {
		t.Fatalf("%+v", b)
	}
	want := scope{model: "m"}.key(nsClaude, "6f0c0000-0000-4000-8000-00000000beef", hex64(b.Root))
	if id := Identify(Request{Path: "/v1/messages", Header: http.Header{}}, b); id.Key != want || id.Source != "body:metadata.user_id" {
		t.Fatalf("%+v", id)
	}
}
