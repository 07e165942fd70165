package server

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// exchange is one request and, in the golden file, all that comes back.
type exchange struct {
	name, path, body string
	header           []string
	fault            string // a fault, KEY=VALUE
}

const (
	chatPath, completionPath   = "/v1/chat/completions", "/v1/completions"
	messagesPath, countPath    = "/v1/messages", "/v1/messages/count_tokens"
	responsesPath              = "/v1/responses"
	embeddingsPath             = "/v1/embeddings"
	tokenizePath, detokenizing = "/tokenize", "/detokenize"

	sayHi     = `{"role":"user","content":"[[sim:say hi]]"}`
	callTwice = `{"role":"user","content":"[[tool:Read {\"path\":\"a.go\"}]]+[[tool:List {\"all\":true}]]"}`
	twoTools  = `,"tools":[{"type":"function","function":{"name":"Read"}},{"type":"function","function":{"name":"List"}}]`
	// namedTools have the name outside: Anthropic's shape, and that of responses.
	namedTools = `,"tools":[{"type":"function","name":"Read","cache_control":{"type":"ephemeral"}},{"type":"function","name":"List"}]`
	withUsage  = `,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}`
)

func chatWith(message, more string) string { return `{"messages":[` + message + `]` + more + `}` }

func messagesWith(message, more string) string {
	return `{"model":"m","max_tokens":60,"messages":[` + message + `]` + more + `}`
}

var chatExchanges = []exchange{
	{name: "system, history and parts", path: chatPath, body: `{"messages":[{"role":"developer","content":"be brief"},{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image_url"}]},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"Read","arguments":"{\"b\":1, \"a\":2}"}}]},{"role":"tool","content":"x"},{"role":"system","content":"late"},` + sayHi + `]}`},
	{name: "two answers", path: chatPath, body: chatWith(sayHi, `,"n":2`)},
	{name: "two streamed answers", path: chatPath, body: chatWith(sayHi, `,"n":2`+withUsage)},
	{name: "two calls", path: chatPath, body: chatWith(callTwice, twoTools)},
	{name: "two streamed calls", path: chatPath, body: chatWith(callTwice, twoTools+withUsage)},
	{name: "calls cut short", path: chatPath, body: chatWith(callTwice, twoTools+`,"max_tokens":12`)},
	{name: "calls without tools", path: chatPath, body: chatWith(callTwice, `,"max_tokens":5`)},
	{name: "tool_choice none", path: chatPath, body: chatWith(callTwice, twoTools+`,"tool_choice":"none","max_tokens":5`)},
	{name: "stop string", path: chatPath, body: chatWith(sayHi, `,"stop":"LATED"`)},
	{name: "stop string, streamed", path: chatPath, body: chatWith(sayHi, `,"stop":["zzz","LATED"],"stream":true`)},
	{name: "length", path: chatPath, body: chatWith(`{"role":"user","content":"hi"}`, `,"max_completion_tokens":3,"max_tokens":9,"stream":true`)},
	{name: "delayed", path: chatPath, body: chatWith(`{"role":"user","content":"[[sim:delay 2s]][[sim:say hi]]"}`, ``)},
	{name: "error event", path: chatPath, body: chatWith(`{"role":"user","content":"[[sim:stream-error 2]]"}`, withUsage)},
	{name: "error instead of an answer", path: chatPath, body: chatWith(`{"role":"user","content":"[[sim:stream-error 2]]"}`, ``)},
	{name: "truncated", path: chatPath, body: chatWith(`{"role":"user","content":"[[sim:truncate 2]]"}`, withUsage)},
	{name: "scripted error", path: chatPath, body: chatWith(`{"role":"user","content":"[[sim:error 429]]"}`, ``)},
	{name: "fault", path: chatPath, body: chatWith(sayHi, ``), fault: "error=503:1"},
	{name: "cut by a fault", path: chatPath, body: chatWith(sayHi, withUsage), fault: "cut=truncate:1"},
	{name: "no messages", path: chatPath, body: `{}`},
	{name: "bad content", path: chatPath, body: chatWith(`{"role":"user","content":7}`, ``)},
	{name: "nameless tool", path: chatPath, body: chatWith(sayHi, `,"tools":[{}]`)},
	{name: "other model", path: chatPath, body: chatWith(sayHi, `,"model":"gpt"`)},
	{name: "max_completion_tokens too large", path: chatPath, body: chatWith(sayHi, `,"max_completion_tokens":601`)},
	{name: "max_tokens 0", path: chatPath, body: chatWith(sayHi, `,"max_tokens":0`)},
	{name: "n 0", path: chatPath, body: chatWith(sayHi, `,"n":0`)},
	{name: "five stop strings", path: chatPath, body: chatWith(sayHi, `,"stop":["a","b","c","d","e"]`)},
	{name: "no JSON", path: chatPath, body: `{`},
	{name: "no list", path: chatPath, body: `{"messages":7}`},
	{name: "no object", path: chatPath, body: `[]`},
	{name: "no integer", path: chatPath, body: chatWith(sayHi, `,"max_tokens":1.5`)},
	{name: "no boolean", path: chatPath, body: chatWith(sayHi, `,"stream_options":{"include_usage":1}`)},
	{name: "no string", path: chatPath, body: `{"messages":[{"role":7}]}`},
	{name: "wrong media type", path: chatPath, body: chatWith(sayHi, ``), header: []string{"Content-Type", "text/plain"}},
	{name: "request id", path: chatPath, body: chatWith(callTwice, twoTools), header: []string{"X-Request-Id", "abc"}},
	{name: "rank", path: chatPath, body: chatWith(sayHi, ``), header: []string{"X-Data-Parallel-Rank", "1"}},
	{name: "priority", path: chatPath, body: chatWith(sayHi, ``), header: []string{"X-Vllm-Priority", "soon"}},
}

var completionExchanges = []exchange{
	{name: "several prompts", path: completionPath, body: `{"prompt":["a","b"],"n":2,"echo":true,"max_tokens":3}`},
	{name: "tokens", path: completionPath, body: `{"prompt":[[844424936779375]],"echo":true,"max_tokens":3}`},
	{name: "streamed echo", path: completionPath, body: `{"prompt":"a","echo":true,"max_tokens":2` + withUsage + `}`},
	{name: "two streamed answers", path: completionPath, body: `{"prompt":"[[sim:say hi]]","n":2` + withUsage + `}`},
	{name: "streamed without usage", path: completionPath, body: `{"prompt":"[[sim:say hi]]","stream":true}`},
	{name: "stop string", path: completionPath, body: `{"prompt":"[[sim:say hi]]","stop":"LATED"}`},
	{name: "stop string, streamed", path: completionPath, body: `{"prompt":"[[sim:say hi]]","stop":"LATED","stream":true}`},
	{name: "delayed", path: completionPath, body: `{"prompt":"[[sim:delay 2s]][[sim:say hi]]"}`},
	{name: "error event", path: completionPath, body: `{"prompt":"[[sim:stream-error 1]]"` + withUsage + `}`},
	{name: "error instead of an answer", path: completionPath, body: `{"prompt":"[[sim:stream-error 1]]"}`},
	{name: "truncated", path: completionPath, body: `{"prompt":"[[sim:truncate 1]]"` + withUsage + `}`},
	{name: "second prompt fails", path: completionPath, body: `{"prompt":["a","[[sim:error 500]]"]}`},
	{name: "streamed prompts", path: completionPath, body: `{"prompt":["a","b"],"stream":true}`},
	{name: "no prompt", path: completionPath, body: `{}`},
	{name: "empty list", path: completionPath, body: `{"prompt":[]}`},
	{name: "empty text", path: completionPath, body: `{"prompt":[""]}`},
	{name: "bad prompt", path: completionPath, body: `{"prompt":{}}`},
	{name: "unknown token", path: completionPath, body: `{"prompt":[5]}`},
	{name: "other model", path: completionPath, body: `{"prompt":"a","model":"gpt"}`},
}

var messagesExchanges = []exchange{
	{name: "system, history and blocks", path: messagesPath, body: messagesWith(`{"role":"user","content":[{"type":"text","text":"hi"},{"type":"image"}]},{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"tool_use","id":"t","name":"Read","input":{"b":1,"a":2}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]},{"role":"system","content":"late"},`+sayHi, `,"system":[{"type":"text","text":"x-anthropic-billing-header: c"},{"type":"text","text":"rules"}]`)},
	{name: "two calls", path: messagesPath, body: messagesWith(callTwice, namedTools)},
	{name: "two streamed calls", path: messagesPath, body: messagesWith(callTwice, namedTools+`,"stream":true`)},
	{name: "calls cut short", path: messagesPath, body: `{"model":"m","max_tokens":12,"messages":[` + callTwice + `]` + namedTools + `}`},
	{name: "calls cut short, streamed", path: messagesPath, body: `{"model":"m","max_tokens":12,"stream":true,"messages":[` + callTwice + `]` + namedTools + `}`},
	{name: "stop sequence", path: messagesPath, body: messagesWith(sayHi, `,"stop_sequences":["LATED"]`)},
	{name: "stop sequence, streamed", path: messagesPath, body: messagesWith(sayHi, `,"stop_sequences":["LATED"],"stream":true`)},
	{name: "length", path: messagesPath, body: `{"model":"m","max_tokens":2,"ignore_eos":true,"messages":[` + sayHi + `]}`},
	{name: "error event", path: messagesPath, body: messagesWith(`{"role":"user","content":"[[sim:stream-error 2]]"}`, `,"stream":true`)},
	{name: "error instead of an answer", path: messagesPath, body: messagesWith(`{"role":"user","content":"[[sim:stream-error 2]]"}`, ``)},
	{name: "truncated", path: messagesPath, body: messagesWith(`{"role":"user","content":"[[sim:truncate 2]]"}`, `,"stream":true`)},
	{name: "scripted error", path: messagesPath, body: messagesWith(`{"role":"user","content":"[[sim:error 529]]"}`, ``)},
	{name: "nothing", path: messagesPath, body: `{}`},
	{name: "no messages", path: messagesPath, body: `{"model":"m","max_tokens":1,"messages":[]}`},
	{name: "bad content", path: messagesPath, body: messagesWith(`{"role":"user","content":7}`, ``)},
	{name: "nameless tool", path: messagesPath, body: messagesWith(sayHi, `,"tools":[{}]`)},
	{name: "other model", path: messagesPath, body: `{"model":"gpt","max_tokens":1,"messages":[` + sayHi + `]}`},
	{name: "max_tokens too large", path: messagesPath, body: `{"model":"m","max_tokens":601,"messages":[` + sayHi + `]}`},
	{name: "no JSON", path: messagesPath, body: `{`},
	{name: "count", path: countPath, body: `{"model":"m","messages":[` + callTwice + `]` + namedTools + `}`},
	{name: "count nothing", path: countPath, body: `{}`},
	{name: "count no messages", path: countPath, body: `{"model":"gpt","messages":[]}`},
	{name: "count for another model", path: countPath, body: `{"model":"gpt","messages":[` + sayHi + `]}`},
	{name: "count bad JSON", path: countPath, body: `{`},
}

var responsesExchanges = []exchange{
	{name: "instructions and items", path: responsesPath, body: `{"instructions":"be brief","metadata":{"a":"b"},"parallel_tool_calls":false,"input":[{"role":"developer","content":"d"},{"role":"user","content":[{"type":"input_text","text":"hi"}]},{"type":"function_call","name":"Read","arguments":"{}"},{"type":"function_call","name":"List","arguments":"{}"},{"type":"function_call_output","output":"o"},{"type":"reasoning"},` + sayHi + `]}`},
	{name: "two calls", path: responsesPath, body: `{"input":[` + callTwice + `]` + namedTools + `}`},
	{name: "two streamed calls", path: responsesPath, body: `{"stream":true,"input":[` + callTwice + `]` + namedTools + `}`},
	{name: "calls cut short", path: responsesPath, body: `{"max_output_tokens":12,"input":[` + callTwice + `]` + namedTools + `}`},
	{name: "calls cut short, streamed", path: responsesPath, body: `{"stream":true,"max_output_tokens":12,"input":[` + callTwice + `]` + namedTools + `}`},
	{name: "built-in tool", path: responsesPath, body: `{"max_output_tokens":2,"input":"hi","tools":[{"type":"web_search"}]}`},
	{name: "length", path: responsesPath, body: `{"max_output_tokens":2,"ignore_eos":true,"input":"hi"}`},
	{name: "length, streamed", path: responsesPath, body: `{"max_output_tokens":2,"ignore_eos":true,"input":"hi","stream":true}`},
	{name: "delayed", path: responsesPath, body: `{"input":"[[sim:delay 2s]][[sim:say hi]]"}`},
	{name: "error event at once", path: responsesPath, body: `{"stream":true,"input":"[[sim:stream-error 1]]"}`},
	{name: "error event", path: responsesPath, body: `{"stream":true,"input":"[[sim:stream-error 5]]"}`},
	{name: "error instead of an answer", path: responsesPath, body: `{"input":"[[sim:stream-error 1]]"}`},
	{name: "truncated", path: responsesPath, body: `{"stream":true,"input":"[[sim:truncate 3]]"}`},
	{name: "scripted error", path: responsesPath, body: `{"input":"[[sim:error 500]]"}`},
	{name: "previous response", path: responsesPath, body: `{"previous_response_id":"resp_1"}`},
	{name: "no input", path: responsesPath, body: `{}`},
	{name: "bad input", path: responsesPath, body: `{"input":7}`},
	{name: "bad content", path: responsesPath, body: `{"input":[{"role":"user","content":7}]}`},
	{name: "bad output", path: responsesPath, body: `{"input":[{"type":"function_call_output","output":7}]}`},
	{name: "bad tool", path: responsesPath, body: `{"input":"hi","tools":[7]}`},
	{name: "other model", path: responsesPath, body: `{"input":"hi","model":"gpt"}`},
}

var otherExchanges = []exchange{
	{name: "embeddings of two", path: embeddingsPath, body: `{"input":["a b","c"],"dimensions":2}`},
	{name: "embeddings are not cut", path: embeddingsPath, body: `{"input":"a","dimensions":1}`, fault: "cut=close:0"},
	{name: "embeddings with an error", path: embeddingsPath, body: `{"input":"a"}`, fault: "error=503:1"},
	{name: "embeddings too wide", path: embeddingsPath, body: `{"input":"a","dimensions":5000}`},
	{name: "embeddings of nothing", path: embeddingsPath, body: `{}`},
	{name: "embeddings of another model", path: embeddingsPath, body: `{"input":"a","model":"gpt"}`},
	{name: "tokenize a chat", path: tokenizePath, body: chatWith(sayHi, `,"return_token_strs":true`)},
	{name: "tokenize an empty text", path: tokenizePath, body: `{"prompt":""}`},
	{name: "tokenize nothing", path: tokenizePath, body: `{}`},
	{name: "tokenize for another model", path: tokenizePath, body: `{"model":"gpt"}`},
	{name: "tokenize bad JSON", path: tokenizePath, body: `{`},
	{name: "detokenize", path: detokenizing, body: `{"tokens":[844424936779375]}`},
	{name: "detokenize an unknown token", path: detokenizing, body: `{"tokens":[5]}`},
	{name: "detokenize for another model", path: detokenizing, body: `{"model":"gpt","tokens":[5]}`},
	{name: "detokenize bad JSON", path: detokenizing, body: `{`},
}

// answered returns the answer to an exchange as text. Dates are the only
// header that is left out: net/http's, not the engine's.
func (h *harness) answered(e exchange) string {
	h.t.Helper()
	if key, value, ok := strings.Cut(e.fault, "="); ok {
		h.fault(map[string]string{key: value})
	}
	resp, err := h.do(h.t.Context(), http.MethodPost, e.path, e.body, e.header...)
	if err != nil {
		h.t.Fatalf("%s: %v", e.name, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatalf("%s: %v", e.name, err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "=== %s: %s\n%d\n", e.name, e.path, resp.StatusCode)
	resp.Header.Del("Date")
	for _, name := range slices.Sorted(maps.Keys(resp.Header)) {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(resp.Header[name], ", "))
	}
	fmt.Fprintf(&b, "\n%s\n", body)
	return b.String()
}

// Every API in every form a client can meet, errors included, to the byte: each
// exchange has a fresh engine, so none depends on the ones before it.
func TestExchanges(t *testing.T) {
	tests := []struct {
		file      string
		exchanges []exchange
	}{
		{"chat", chatExchanges},
		{"completion", completionExchanges},
		{"messages", messagesExchanges},
		{"responses", responsesExchanges},
		{"other", otherExchanges},
	}
	options := map[string]func(*Options){
		"":      func(*Options) {},
		"_bare": func(o *Options) { o.PromptTokensDetails, o.NoFingerprint = false, true },
		"_0.26": func(o *Options) { o.Dialect, o.ForceIncludeUsage, o.SystemAnywhere = V026, true, true },
	}
	for _, tt := range tests {
		for suffix, change := range options {
			t.Run(tt.file+suffix, func(t *testing.T) {
				var all strings.Builder
				for _, e := range tt.exchanges {
					o := slow()
					o.Engine.Blocks, o.Engine.MaxModelLen = 100, 600
					change(&o)
					bubble(t, o, func(_ *testing.T, h *harness) { all.WriteString(h.answered(e)) })
				}
				golden(t, "exchanges_"+tt.file+suffix+".golden", []byte(all.String()))
			})
		}
	}
}
