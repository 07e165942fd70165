package identity

import (
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lm-warden/warden/router/identity/scan"
)

func identifyChat(body string, headers ...string) Identity {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Add(headers[i], headers[i+1])
	}
	const path = "/v1/chat/completions"
	return Identify(Request{Method: "POST", Path: path, PeerAddr: "10.0.0.1:1", Header: h}, scan.Scan(path, []byte(body)))
}

// The sources that no golden sample shows.
func TestSources(t *testing.T) {
	s := scope{model: "m"}
	tests := []struct {
		name, body string
		headers    []string
		source     string
		key        Key
	}{
		{"session_id", `{"model":"m","session_id":"a","sessionId":"b"}`, nil, "body:session_id", s.key(nsBody, "a", "")},
		{"sessionId", `{"model":"m","sessionId":"b","thread_id":"c"}`, nil, "body:sessionId", s.key(nsBody, "b", "")},
		{"conversation_id", `{"model":"m","conversation_id":42}`, nil, "body:conversation_id", s.key(nsBody, "42", "")},
		{"thread_id", `{"model":"m","thread_id":"c"}`, nil, "body:thread_id", s.key(nsBody, "c", "")},
		{"metadata", `{"model":"m","metadata":{"conversation_id":"e","session_id":"d","user_id":"u","x":{}}}`, nil,
			"body:metadata.session_id", s.key(nsBody, "d", "")},
		{"metadata conversation", `{"model":"m","metadata":{"conversation_id":"e"}}`, nil,
			"body:metadata.conversation_id", s.key(nsBody, "e", "")},
		{"metadata twice", `{"model":"m","metadata":{"session_id":"d"},"metadata":{}}`, nil, "", Key{}},
		{"litellm", `{"model":"m","litellm_session_id":"f"}`, nil, "body:litellm_session_id", s.key(nsBody, "f", "")},
		{"session_params", `{"model":"m","session_params":{"x":1,"session_id":"g"}}`, nil,
			"body:session_params.session_id", s.key(nsBody, "g", "")},
		{"unusable", `{"model":"m","session_id":"none","thread_id":true,"litellm_session_id":null}`, nil, "", Key{}},
		{"header before body", `{"model":"m","session_id":"a"}`, []string{"X-Session-Id", "h"}, "x-session-id", s.key(nsSession, "h", "")},
		{"goose before 2026", `{"model":"m"}`, []string{"goose-session-id", "1"}, "goose-session-id", s.key("goose", "1", "10.0.0.1")},
		{"dynamo", `{"model":"m"}`, []string{"X-Dynamo-Session-ID", "1", "X-Dynamo-Parent-Session-ID", "0"},
			"x-dynamo-session-id", s.key("x-dynamo-session-id", "1", "")},
		{"a parent alone is no id", `{"model":"m"}`, []string{"X-Acme-Parent-Session-Id", "0", "X-Parent-Session-Id", "0"}, "", Key{}},
		{"two vendors", `{"model":"m"}`, []string{"X-B-Session-Id", "b", "X-A-Session-Id", "a"},
			"x-a-session-id", s.key("x-a-session-id", "a", "")},
		{"no cohort without a user turn", `{"model":"m","prompt_cache_key":"k","messages":[{"role":"system","content":"s"}]}`, nil, "", Key{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			id := identifyChat(tt.body, tt.headers...)
			if id.Key != tt.key || id.source != tt.source {
				t.Errorf("key %s from %q, want %s from %q", id.Key, id.source, tt.key, tt.source)
			}
		})
	}
	if id := identifyChat(`{"model":"m"}`, "X-Dynamo-Session-ID", "1", "X-Dynamo-Parent-Session-ID", "0"); id.Class != Subagent ||
		id.Parent != s.key("x-dynamo-session-id", "0", "") {
		t.Errorf("%+v", id)
	}
}

// Copilot's id names a loop within a conversation: content goes first.
func TestInteractionIsAHint(t *testing.T) {
	if id := identifyChat(`{"model":"m"}`, "X-Interaction-Id", "i"); !id.Key.IsZero() || id.hint.IsZero() {
		t.Errorf("%+v", id)
	}
	if id := identifyChat(`{"model":"m"}`, "X-Interaction-Id", "i", "X-Session-Id", "s"); id.Key.IsZero() || !id.hint.IsZero() {
		t.Errorf("with another id: %+v", id)
	}
}

func TestKeysAreScoped(t *testing.T) {
	headers := http.Header{"X-Session-Id": {"s"}}
	body := scan.Scan("/v1/chat/completions", []byte(`{"model":"alias","previous_response_id":"r"}`))
	seen := map[Key]string{}
	for name, r := range map[string]Request{
		"body's model":    {},
		"served model":    {Model: "repo"},
		"key":             {Model: "repo", APIKeyID: "k"},
		"key like a name": {Model: "repok"},
	} {
		r.Path, r.Header = "/v1/chat/completions", headers
		key := Identify(r, body).Key
		if other, ok := seen[key]; ok || key.IsZero() {
			t.Errorf("%q has the key of %q", name, other)
		}
		seen[key] = name
	}
	if PinKey("a", "r") == PinKey("b", "r") || PinKey("a", "r") == PinKey("a", "s") {
		t.Error("pins are not scoped by API key")
	}
}

func TestKeyForms(t *testing.T) {
	k := Key{0xab, 0xcd, 0xef, 0x01, 0x23}
	if k.Short() != "abcd" || k.String() != "abcdef01230000000000000000000000" || k.IsZero() {
		t.Error(k.Short(), k.String())
	}
	if zero := (Key{}); zero.Short() != "-" || zero.String() != "" || !zero.IsZero() {
		t.Error(zero.Short(), zero.String())
	}
}

func TestClientOf(t *testing.T) {
	for userAgent, want := range map[string]struct {
		client  string
		version version
	}{
		"claude-cli/2.1.332 (external, sdk-ts, agent-sdk/0.3.332)": {ClaudeCode, version{2, 1, 332}},
		"codex_cli_rs/0.171.0-alpha.3 (Linux)":                     {clientCodex, version{0, 171, 0}},
		"ai-sdk/openai-compatible/1.0 opencode/1.18.33":            {clientOpencode, version{1, 18, 33}},
		"OpenAI/Python 2.8.0":                                      {"openai-sdk", version{}},
		"AsyncAnthropic/Python 0.80":                               {"anthropic-sdk", version{}},
		"curl/8.5":                                                 {"curl", version{8, 5, 0}},
		"":                                                         {"", version{}},
	} {
		if client, v := clientOf(userAgent); client != want.client || v != want.version {
			t.Errorf("%q: %q %v, want %q %v", userAgent, client, v, want.client, want.version)
		}
	}
}

func TestVersionBefore(t *testing.T) {
	tests := []struct {
		v, other version
		want     bool
	}{
		{version{2, 1, 138}, agentIDVersion, true}, {version{2, 1, 139}, agentIDVersion, false},
		{version{2, 0, 999}, agentIDVersion, true}, {version{3, 0, 0}, agentIDVersion, false},
		{version{}, agentIDVersion, false}, // unknown
	}
	for _, tt := range tests {
		if got := tt.v.before(tt.other); got != tt.want {
			t.Errorf("%v before %v: %v", tt.v, tt.other, got)
		}
	}
}

// A proxy may leave out the port.
func TestPeer(t *testing.T) {
	for addr, want := range map[string]string{"10.0.0.1:80": "10.0.0.1", "[::1]:80": "::1", "@": "@", "": ""} {
		if got := (&query{Request: Request{PeerAddr: addr}}).peer(); got != want {
			t.Errorf("%q: %q", addr, got)
		}
	}
}

// Whatever a client sends, the answer is one and the same, and a side call names
// no conversation as its own.
func FuzzIdentify(f *testing.F) {
	paths := []string{"/v1/messages", "/v1/chat/completions", "/v1/responses/x", "/v1/completions", "/v1/embeddings", "/tokenize"}
	files, err := filepath.Glob("testdata/golden/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for i, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, a := range archive.Files {
			head, body, _ := strings.Cut(string(a.Data), "\n\n")
			_, head, _ = strings.Cut(head, "\n")
			f.Add(uint8(i), head, []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, path uint8, head string, raw []byte) {
		r := Request{Method: "POST", Path: paths[int(path)%len(paths)], PeerAddr: "10.0.0.1:1", Header: http.Header{}}
		for line := range strings.Lines(head) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			r.Header.Add(name, value)
		}
		b := scan.Scan(r.Path, raw)
		id, again := Identify(r, b), Identify(r, b)
		if !reflect.DeepEqual(id, again) {
			t.Fatalf("%+v, then %+v", id, again)
		}
		if id.Class == Auxiliary && !id.Key.IsZero() {
			t.Fatalf("a side call has a key: %+v", id)
		}
		id.Describe(b, raw)
		if r := NewIndex(Limits{}).Resolve(id, testStart); r.Kind == KindNone != r.Key.IsZero() {
			t.Fatalf("%+v", r)
		}
	})
}
