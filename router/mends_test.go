package router

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/lm-warden/warden/router/mends"
)

const claudeAgent = "claude-cli/2.1.332 (external, cli)"

// claude sends one request as Claude Code does.
func (f *fixture) claude(session, body string) reply {
	f.t.Helper()
	return f.post("/v1/messages?beta=true", body, "User-Agent", claudeAgent, "X-Claude-Code-Session-Id", session)
}

// history is a Messages request with these turns; a leading ! marks system.
func history(turns ...string) string {
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	var messages []message
	next := 0
	for _, text := range turns {
		role := []string{"user", "assistant"}[next%2]
		if rest, ok := strings.CutPrefix(text, "!"); ok {
			role, text = "system", rest
		} else {
			next++
		}
		messages = append(messages, message{role, text})
	}
	body, err := json.Marshal(map[string]any{
		"model": testModel, "max_tokens": 4096, "messages": messages,
		"tools": []any{map[string]any{"name": "Read", "input_schema": map[string]any{"type": "object"}}},
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

func TestSystemTurnsByPolicyAndClient(t *testing.T) {
	for _, c := range []struct {
		policy mends.SystemTurns
		agent  string
		path   string
		folds  bool
	}{
		{mends.SystemTurnsAuto, claudeAgent, "/v1/messages", true},
		{mends.SystemTurnsAuto, claudeAgent, "/v1/messages/count_tokens", true},
		{mends.SystemTurnsAuto, "anthropic/1.14", "/v1/messages", false},
		{mends.SystemTurnsAuto, claudeAgent, "/v1/chat/completions", false},
		{mends.SystemTurnsFold, "anthropic/1.14", "/v1/messages", true},
		{mends.SystemTurnsKeep, claudeAgent, "/v1/messages", false},
		{mends.SystemTurnsRejectOnce, "anthropic/1.14", "/v1/messages", false},
	} {
		t.Run(string(c.policy)+c.path+c.agent[:6], func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 1, model: Model{Alias: testModel, SystemTurns: c.policy}})
				sent := history("go", "!Tokens left: 900")
				if r := f.post(c.path, sent, "User-Agent", c.agent); r.status != 200 {
					t.Fatalf("%d %s", r.status, r.body)
				}
				got := f.engine("r0").requests()[0].body
				if want := strings.Contains(got, `<system-reminder>\nTokens left: 900\n</system-reminder>`); want != c.folds {
					t.Errorf("folded %v, want %v: %s", want, c.folds, got)
				}
				if !c.folds && got != sent {
					t.Errorf("the engine got %s, want %s", got, sent)
				}
			})
		})
	}
}

// The first request with system turns is refused in the words that Claude Code
// understands, and only the first: no client can be caught in a loop.
func TestSystemTurnsAreRejectedOnce(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, model: Model{Alias: testModel, SystemTurns: mends.SystemTurnsRejectOnce}})
		if r := f.claude("s1", history("hi")); r.status != 200 {
			t.Fatalf("without system turns: %d", r.status)
		}
		r := f.claude("s1", history("hi", "yes", "go", "!Tokens left: 900"))
		var refusal struct {
			Type  string
			Error struct{ Type, Message string }
		}
		if err := json.Unmarshal([]byte(r.body), &refusal); err != nil {
			t.Fatal(err)
		}
		if r.status != 400 || refusal.Type != "error" || refusal.Error.Type != "invalid_request_error" ||
			refusal.Error.Message != "messages.1.role: Input should be user or assistant; role system is not supported" {
			t.Errorf("%d %s", r.status, r.body)
		}
		if n := len(f.engine("r0").requests()); n != 1 {
			t.Errorf("the refused request reached the engine (%d requests)", n)
		}
		if r := f.claude("s1", history("hi", "yes", "go", "!Tokens left: 900")); r.status != 200 {
			t.Errorf("once more: %d %s", r.status, r.body)
		}
		if got := f.engine("r0").requests()[1].body; strings.Contains(got, `"role":"system"`) {
			t.Errorf("a system turn reached the engine: %s", got)
		}
		if r := f.claude("s2", history("hi", "!x")); r.status != 400 {
			t.Errorf("another conversation: %d", r.status)
		}
		soon()
		if n := len(f.finished()); n != 2 {
			t.Errorf("%d requests counted as turns, want 2", n)
		}
	})
}

// A chat template that refuses two user messages in a row ends the rewriting
// for its model, and costs no client a request.
func TestTemplateThatWantsAlternatingRoles(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.every(func(e *engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				got := e.requests()
				if strings.Contains(got[len(got)-1].body, "system-reminder") {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(400)
					_, _ = io.WriteString(w, `{"type":"error","error":{"type":"BadRequestError","message":"Conversation roles must alternate user/assistant/user/assistant/..."}}`)
					return
				}
				sayHello(w, req)
			}
		})
		sent := history("hi", "!x")
		for i := range 2 {
			r := f.claude("s", sent)
			if r.status != 200 {
				t.Errorf("request %d: %d %s", i, r.status, r.body)
			}
			got := f.engine(r.header.Get("X-Warden-Replica")).requests()
			if got[len(got)-1].body != sent {
				t.Errorf("request %d: the engine got %s", i, got[len(got)-1].body)
			}
		}
		if n := len(f.engines[0].requests()) + len(f.engines[1].requests()); n != 3 {
			t.Errorf("%d requests, want 3: the rewriting is tried once", n)
		}
		events := strings.Join(f.noted(&f.events), "\n")
		if strings.Count(events, "chat template wants user and assistant in turns") != 1 {
			t.Errorf("events: %s", events)
		}
	})
}

// A prompt that is wholly cached still has a token that is not, for clients
// only: what warden counts is what the engine said.
func TestUsageIsMended(t *testing.T) {
	whole := `{"id":"msg_1","type":"message","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":{"input_tokens":0,"output_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":1000}}`
	streamed := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1000,\"output_tokens\":0}}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"}," + whole[strings.Index(whole, `"usage"`):] + "\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	mended := strings.NewReplacer(`"usage":{"input_tokens":0`, `"usage":{"input_tokens":1`, `"cache_read_input_tokens":1000`, `"cache_read_input_tokens":999`)
	for _, c := range []struct {
		name                string
		model               Model
		path                string
		mendsStream, mended bool
	}{
		{"by default", Model{}, "/v1/messages", true, true},
		{"switched off", Model{ExactUsage: true}, "/v1/messages", false, false},
		{"exact streams", Model{ExactStreams: true}, "/v1/messages", false, true},
		{"another API", Model{}, "/v1/chat/completions", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				c.model.Alias = testModel
				f := newFixture(t, setup{engines: 1, model: c.model})
				f.engine("r0").set(func(w http.ResponseWriter, req *http.Request) {
					got := f.engine("r0").requests()
					if strings.Contains(got[len(got)-1].body, `"stream":true`) {
						stream(w).send(streamed)
						return
					}
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Content-Length", strconv.Itoa(len(whole)))
					_, _ = io.WriteString(w, whole)
				})
				for _, a := range []struct {
					ask, sent string
					mends     bool
				}{{chatBody("x"), whole, c.mended}, {streamBody("x"), streamed, c.mendsStream}} {
					want := a.sent
					if a.mends {
						want = mended.Replace(want)
					}
					r := f.post(c.path, a.ask)
					if body, _, _ := strings.Cut(r.body, "data: {\"error\""); body != want { // a chat stream has another end
						t.Errorf("got %s %v\nwant %s", r.body, r.err, want)
					}
				}
				soon()
				if c.path != "/v1/messages" {
					return
				}
				for _, rec := range f.finished() {
					if rec.Usage.PromptTokens != 1000 || rec.Usage.CachedTokens != 1000 {
						t.Errorf("measured %+v", rec.Usage)
					}
				}
				if tokens := f.router.Snapshot(0).Models[0].Replicas[0].Tokens; tokens.CachedTotal != 2000 || tokens.ComputedTotal != 0 {
					t.Errorf("tokens: %+v", tokens)
				}
			})
		})
	}
}

// Codex and others know a conversation that is too long by OpenAI's code.
func TestOverflowHasOpenAICode(t *testing.T) {
	const refusal = `{"error":{"message":"This model's maximum context length is 16384 tokens. However, your prompt contains at least 16385 input tokens, which exceeds this limit even without any output tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`
	reworded := strings.NewReplacer(`"BadRequestError"`, `"invalid_request_error"`, "400", `"context_length_exceeded"`).Replace(refusal)
	for _, c := range []struct {
		path   string
		status int
		exact  bool
		want   string
	}{
		{"/v1/responses", 400, false, reworded},
		{"/v1/chat/completions", 400, false, reworded},
		{"/v1/completions", 400, false, reworded},
		{"/v1/responses", 400, true, refusal},
		{"/v1/responses", 422, false, refusal},
		{"/v1/embeddings", 400, false, refusal},
	} {
		t.Run(fmt.Sprint(c.path, c.status, c.exact), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 2, model: Model{Alias: testModel, ExactErrors: c.exact}})
				f.every(func(*engine) http.HandlerFunc {
					return func(w http.ResponseWriter, _ *http.Request) {
						w.Header().Set("Content-Type", "application/json")
						w.WriteHeader(c.status)
						_, _ = io.WriteString(w, refusal)
					}
				})
				if r := f.post(c.path, chatBody("x")); r.status != c.status || r.body != c.want || r.err != nil {
					t.Errorf("%d %s %v\nwant %s", r.status, r.body, r.err, c.want)
				}
				if n := len(f.engines[0].requests()) + len(f.engines[1].requests()); n != 1 {
					t.Errorf("asked %d times", n)
				}
			})
		})
	}
}

func TestUnknownSystemTurnsPolicy(t *testing.T) {
	r := New(Options{})
	t.Cleanup(r.Close)
	if err := r.SetModels([]Model{{Alias: "m", SystemTurns: "drop"}}); err == nil || !strings.Contains(err.Error(), `"drop"`) {
		t.Errorf("%v", err)
	}
}

// What does not fit is refused in words that Claude Code can act on, whatever
// vLLM says; its retry asks for what is left.
func TestOverflowIsRewordedForRecovery(t *testing.T) {
	for name, message := range map[string]string{
		"sum":    "This model's maximum context length is 40960 tokens. However, you requested 64000 output tokens and your prompt contains at least 10000 input tokens, for a total of at least 74000 tokens.",
		"alone":  "max_completion_tokens=64000 cannot be greater than max_model_len=40960.",
		"before": "'max_tokens' or 'max_completion_tokens' is too large: 64000. This model's maximum context length is 40960 tokens and your request has 10000 input tokens (64000 > 40960 - 10000).",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 1})
				f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "application/json")
					w.WriteHeader(400)
					_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"BadRequestError","message":%q}}`, message)
				})
				r := f.claude("s", history(strings.Repeat("text", 10_000)))
				text := decodeJSON(t, r.body)["error"].(map[string]any)["message"].(string)
				var input, output, limit int
				if _, err := fmt.Sscanf(text, "input length and `max_tokens` exceed context limit: %d + %d > %d,", &input, &output, &limit); err != nil {
					t.Fatalf("%q: %v", text, err)
				}
				if r.status != 400 || output != 64000 || limit != 40960 || input < 9_900 || input > 10_100 {
					t.Errorf("%d %q", r.status, text)
				}
			})
		})
	}
}
