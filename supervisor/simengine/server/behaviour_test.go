package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// num makes JSON numbers comparable with Go's.
func num(v any) int {
	f, ok := v.(float64)
	if !ok {
		return -1
	}
	return int(f)
}

// turnsBody is a chat of so many user turns with the answers so far.
func turnsBody(answers []string) string {
	var b strings.Builder
	b.WriteString(`{"max_tokens":50,"messages":[{"role":"system","content":"You are an agent of some patience."}`)
	for i := 0; i <= len(answers); i++ {
		fmt.Fprintf(&b, `,{"role":"user","content":"This is question number %d, please answer it."}`, i)
		if i < len(answers) {
			text, _ := json.Marshal(answers[i])
			fmt.Fprintf(&b, `,{"role":"assistant","content":%s}`, text)
		}
	}
	return b.String() + `]}`
}

// Each turn must find all full blocks of the turn before, its answer included,
// in the cache: what real vLLM does with a model whose template keeps history.
func TestConversationStaysCached(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		var answers []string
		before := 0
		for turn := range 6 {
			out := h.post("/v1/chat/completions", turnsBody(answers))
			usage := dig(out, "usage")
			cached := num(dig(usage, "prompt_tokens_details", "cached_tokens"))
			// The last token of an answer was never computed.
			if want := max(before-1, 0) / 16 * 16; cached != want {
				t.Errorf("turn %d: %d tokens cached, want %d", turn, cached, want)
			}
			before = num(dig(usage, "total_tokens"))
			answers = append(answers, dig(out, "choices", 0, "message", "content").(string))
		}
	})
}

func TestCachedTokensOfEachAPI(t *testing.T) {
	long := strings.Repeat("word ", 100)
	tests := []struct {
		name, path, body string
		stream           bool
		cached           []any // where the last event or the body has it
		always           bool  // also without --enable-prompt-tokens-details
	}{
		{"chat", "/v1/chat/completions", `{"messages":[{"role":"user","content":"LONG"}],"max_tokens":2}`, false, []any{"usage", "prompt_tokens_details", "cached_tokens"}, false},
		{"chat stream", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"LONG"}],"max_tokens":2}`, true, []any{"usage", "prompt_tokens_details", "cached_tokens"}, false},
		{"completion", "/v1/completions", `{"prompt":"LONG","max_tokens":2}`, false, []any{"usage", "prompt_tokens_details", "cached_tokens"}, false},
		{"completion stream", "/v1/completions", `{"prompt":"LONG","max_tokens":2,"stream":true,"stream_options":{"include_usage":true}}`, true, []any{"usage", "prompt_tokens_details", "cached_tokens"}, false},
		{"messages", "/v1/messages", `{"model":"m","messages":[{"role":"user","content":"LONG"}],"max_tokens":2}`, false, []any{"usage", "cache_read_input_tokens"}, false},
		{"messages stream", "/v1/messages", `{"model":"m","stream":true,"messages":[{"role":"user","content":"LONG"}],"max_tokens":2}`, true, []any{"usage", "cache_read_input_tokens"}, false},
		{"responses", "/v1/responses", `{"input":"LONG","max_output_tokens":2}`, false, []any{"usage", "input_tokens_details", "cached_tokens"}, true},
		{"responses stream", "/v1/responses", `{"stream":true,"input":"LONG","max_output_tokens":2}`, true, []any{"response", "usage", "input_tokens_details", "cached_tokens"}, true},
	}
	for _, tt := range tests {
		for _, details := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s details=%v", tt.name, details), func(t *testing.T) {
				o := slow()
				o.PromptTokensDetails = details
				bubble(t, o, func(t *testing.T, h *harness) {
					body := strings.ReplaceAll(tt.body, "LONG", long)
					var last any
					for range 2 {
						if !tt.stream {
							last = h.post(tt.path, body)
							continue
						}
						events, err := h.stream(tt.path, body)
						if err != nil {
							t.Fatal(err)
						}
						last = usageEvent(t, events)
					}
					want := -1 // not there
					if details || tt.always {
						want = 96
					}
					if got := num(dig(last, tt.cached...)); got != want {
						t.Errorf("cached tokens %d, want %d, in %v", got, want, last)
					}
				})
			})
		}
	}
}

// usageEvent is the last event with a usage.
func usageEvent(t *testing.T, events []sseEvent) any {
	for i := len(events) - 1; i >= 0; i-- {
		var v any
		if json.Unmarshal([]byte(events[i].data), &v) == nil && strings.Contains(events[i].data, `"usage":{`) {
			return v
		}
	}
	t.Fatal("no event has a usage")
	return nil
}

func TestAnthropicUsageAddsUp(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		body := `{"model":"m","max_tokens":2,"messages":[{"role":"user","content":"` + strings.Repeat("word ", 100) + `"}]}`
		total := num(dig(h.post("/v1/messages/count_tokens", body), "input_tokens"))
		for _, want := range []struct{ read, created int }{{0, total / 16 * 16}, {total / 16 * 16, 0}} {
			usage := dig(h.post("/v1/messages", body), "usage")
			got := []int{num(dig(usage, "cache_read_input_tokens")), num(dig(usage, "cache_creation_input_tokens")), num(dig(usage, "input_tokens"))}
			if diff := cmp.Diff([]int{want.read, want.created, total % 16}, got); diff != "" {
				t.Error(diff)
			}
		}
	})
}

func TestUsageChunkOnlyWhenAskedFor(t *testing.T) {
	for _, tt := range []struct {
		options string
		force   bool
		want    bool
	}{{`{}`, false, false}, {`{"include_usage":true}`, false, true}, {`{}`, true, true}} {
		o := slow()
		o.ForceIncludeUsage = tt.force
		bubble(t, o, func(t *testing.T, h *harness) {
			events, err := h.stream("/v1/chat/completions", `{"stream":true,"stream_options":`+tt.options+`,"messages":[{"role":"user","content":"hi"}]}`)
			if err != nil || events[len(events)-1].data != "[DONE]" {
				t.Fatalf("stream ended with %v: %v", events[len(events)-1], err)
			}
			got := strings.Contains(events[len(events)-2].data, `"choices":[]`)
			if got != tt.want {
				t.Errorf("%+v: usage chunk sent: %v", tt, got)
			}
		})
	}
}

func TestFinishReasons(t *testing.T) {
	tests := []struct{ name, path, body, where, want string }{
		{"chat stop", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`, "chat", "stop"},
		{"chat length", "/v1/chat/completions", `{"max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`, "chat", "length"},
		{"chat max_completion_tokens", "/v1/chat/completions", `{"max_completion_tokens":3,"messages":[{"role":"user","content":"hi"}]}`, "chat", "length"},
		{"chat ignore_eos", "/v1/chat/completions", `{"max_tokens":200,"ignore_eos":true,"messages":[{"role":"user","content":"[[sim:words 3]]"}]}`, "chat", "length"},
		{"chat stop string", "/v1/chat/completions", `{"stop":["LATED"],"messages":[{"role":"user","content":"hi"}]}`, "chat", "stop"},
		{"chat tool", "/v1/chat/completions", `{"messages":[{"role":"user","content":"[[tool:Read {}]]"}],` + readTool + `}`, "chat", "tool_calls"},
		{"chat tool_choice none", "/v1/chat/completions", `{"tool_choice":"none","messages":[{"role":"user","content":"[[tool:Read {}]]"}],` + readTool + `}`, "chat", "stop"},
		{"messages end", "/v1/messages", `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"hi"}]}`, "messages", "end_turn"},
		{"messages length", "/v1/messages", `{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`, "messages", "max_tokens"},
		{"messages stop", "/v1/messages", `{"model":"m","max_tokens":500,"stop_sequences":["LATED"],"messages":[{"role":"user","content":"hi"}]}`, "messages", "stop_sequence"},
		{"messages tool", "/v1/messages", `{"model":"m","max_tokens":500,"messages":[{"role":"user","content":"[[tool:Read {}]]"}],"tools":[{"name":"Read"}]}`, "messages", "tool_use"},
		{"responses length", "/v1/responses", `{"max_output_tokens":3,"input":"hi"}`, "responses", "incomplete"},
		{"responses stop", "/v1/responses", `{"input":"hi"}`, "responses", "completed"},
	}
	where := map[string][]any{"chat": {"choices", 0, "finish_reason"}, "messages": {"stop_reason"}, "responses": {"status"}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, slow(), func(t *testing.T, h *harness) {
				out := h.post(tt.path, tt.body)
				if got := dig(out, where[tt.where]...); got != tt.want {
					t.Errorf("finish reason %v, want %s", got, tt.want)
				}
			})
		})
	}
}

func TestToolLoop(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		user := `{"role":"user","content":"[[tool:Read {\"path\":\"a\"}]]+[[tool:Read {\"path\":\"b\"}]] [[sim:say done]]"}`
		out := h.post("/v1/messages", `{"model":"m","max_tokens":500,"messages":[`+user+`],"tools":[{"name":"Read"}]}`)
		content, _ := json.Marshal(dig(out, "content"))
		if got := dig(out, "content", 1, "input", "path"); got != "b" {
			t.Fatalf("second parallel call reads %v, want b: %s", got, content)
		}
		result := `{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{"type":"text","text":"ok [[sim:error 500]]"}]}]}`
		out = h.post("/v1/messages", `{"model":"m","max_tokens":500,"messages":[`+user+`,{"role":"assistant","content":`+string(content)+`},`+result+`],"tools":[{"name":"Read"}]}`)
		if got := dig(out, "content", 0, "text"); got != "SIMULATED done" {
			t.Errorf("after the tools: %v", got)
		}
		if num(dig(out, "usage", "cache_read_input_tokens")) == 0 {
			t.Error("the tool call that came back broke the prefix")
		}
	})
}

func TestSeveralChoices(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		out := h.post("/v1/chat/completions", `{"n":3,"messages":[{"role":"user","content":"hi"}]}`)
		seen := make(map[any]bool)
		for i := range 3 {
			seen[dig(out, "choices", i, "message", "content")] = true
		}
		if len(seen) != 3 {
			t.Errorf("3 choices, %d different", len(seen))
		}
	})
}

func TestSystemTurns(t *testing.T) {
	body := func(reminder string) string {
		return `{"model":"m","max_tokens":2,"system":[{"type":"text","text":"x-anthropic-billing-header: cch=` + reminder + `"},{"type":"text","text":"` + strings.Repeat("rule ", 40) + `"}],` +
			`"messages":[{"role":"user","content":"` + strings.Repeat("word ", 80) + `"},{"role":"assistant","content":"ok"},` +
			`{"role":"system","content":"` + reminder + `"},{"role":"user","content":"go"}]}`
	}
	// Merged into the leading text, a new reminder keeps 3 tokens of header, 40
	// of rules; in place, it keeps everything before it.
	for anywhere, want := range map[bool]int{false: 32, true: 128} {
		o := slow()
		o.SystemAnywhere = anywhere
		bubble(t, o, func(t *testing.T, h *harness) {
			h.post("/v1/messages", body("one"))
			usage := dig(h.post("/v1/messages", body("two")), "usage")
			if got := num(dig(usage, "cache_read_input_tokens")); got != want {
				t.Errorf("system anywhere %v: %d tokens cached, want %d", anywhere, got, want)
			}
		})
	}
}

func TestTimeOfAnAnswer(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		start := time.Now()
		resp, err := h.do(t.Context(), "POST", "/v1/completions", `{"prompt":"`+strings.Repeat("word ", 90)+`","max_tokens":5,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := time.Since(start); got != 0 {
			t.Errorf("headers came after %v; they leave before the first token", got)
		}
		if _, err := readEvents(resp.Body); err != nil {
			t.Fatal(err)
		}
		// 91 prompt tokens (the last space is one): 10 ms + 91 ms; then four
		// decode steps of 11 ms.
		if got, want := time.Since(start), 145*time.Millisecond; got != want {
			t.Errorf("answer took %v, want %v", got, want)
		}
	})
}

func TestClientThatLeavesAbortsItsRequest(t *testing.T) {
	for _, stream := range []bool{true, false} {
		bubble(t, slow(), func(t *testing.T, h *harness) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				body := fmt.Sprintf(`{"stream":%v,"max_tokens":5000,"ignore_eos":true,"messages":[{"role":"user","content":"hi"}]}`, stream)
				if resp, err := h.do(ctx, "POST", "/v1/chat/completions", body); err == nil {
					_, _ = readEvents(resp.Body)
					resp.Body.Close()
				}
			}()
			time.Sleep(200 * time.Millisecond) // virtual
			if h.server.Stats().Running != 1 {
				t.Fatal("the request does not run")
			}
			cancel()
			<-done
			synctest.Wait()
			time.Sleep(20 * time.Millisecond) // virtual: the step in progress ends
			if st := h.server.Stats(); st.Running+st.Waiting != 0 || st.KVUsed != 0 {
				t.Errorf("stream %v: after the client left: %+v", stream, st)
			}
			_, metrics := h.call("GET", "/metrics", "")
			if !strings.Contains(metrics, `vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 1.0`) {
				t.Errorf("stream %v: the abort was not counted", stream)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	chat := func(rest string) string { return `{"messages":[{"role":"user","content":"hi"}]` + rest + `}` }
	long := `{"messages":[{"role":"user","content":"` + strings.Repeat("word ", 700) + `"}]}`
	tests := []struct {
		name, method, path, body string
		status                   int
		text                     string
	}{
		{"unknown model", "POST", "/v1/chat/completions", chat(`,"model":"gpt-9"`), 404, "{\"error\":{\"message\":\"The model `gpt-9` does not exist. Valid aliases: m, org/model.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"},
		{"unknown model, Anthropic", "POST", "/v1/messages", chat(`,"model":"gpt-9","max_tokens":1`), 404, `{"type":"error","error":{"type":"NotFoundError","message":"The model ` + "`gpt-9`" + ` does not exist. Valid aliases: m, org/model."}}`},
		{"prompt too long", "POST", "/v1/chat/completions", long, 400, "This model's maximum context length is 600 tokens. However, your prompt contains at least 601 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt. (parameter=input_tokens, value=601)"},
		{"max_tokens too large", "POST", "/v1/chat/completions", chat(`,"max_tokens":601`), 400, "max_tokens=601 cannot be greater than max_model_len=600. Please request fewer output tokens. (parameter=max_tokens, value=601)"},
		{"max_tokens zero", "POST", "/v1/chat/completions", chat(`,"max_tokens":0`), 400, "max_tokens must be at least 1, got 0. (parameter=max_tokens, value=0)"},
		{"no messages", "POST", "/v1/chat/completions", `{}`, 400, "body.messages"},
		{"no model and max_tokens", "POST", "/v1/messages", chat(``), 400, `"message":"2 validation errors:\n  {'type': 'missing', 'loc': 'body.model', 'msg': 'Field required'}\n  {'type': 'missing', 'loc': 'body.max_tokens'`},
		{"max_tokens too large, Anthropic", "POST", "/v1/messages", chat(`,"model":"m","max_tokens":601`), 400, "max_completion_tokens=601 cannot be greater than max_model_len=600."},
		{"no input", "POST", "/v1/responses", `{}`, 400, "body.input"},
		{"no prompt", "POST", "/v1/completions", `{"prompt":null}`, 400, "(parameter=prompt)"},
		{"empty prompt", "POST", "/v1/completions", `{"prompt":""}`, 400, "non-empty"},
		{"wrong type", "POST", "/v1/chat/completions", `{"messages":7}`, 400, `{'type': 'list_type', 'loc': 'body.messages', 'msg': 'Input should be a valid list'}`},
		{"no JSON", "POST", "/v1/chat/completions", `{`, 400, "json_invalid"},
		{"n too large", "POST", "/v1/chat/completions", chat(`,"n":1000`), 400, "n must be at most 64, got 1000."},
		{"five stop strings", "POST", "/v1/chat/completions", chat(`,"stop":["a","b","c","d","e"]`), 400, "List should have at most 4 items after validation, not 5"},
		{"nameless tool", "POST", "/v1/chat/completions", chat(`,"tools":[{}]`), 400, "function with a name"},
		{"previous response", "POST", "/v1/responses", `{"input":"hi","previous_response_id":"resp_1"}`, 404, "Response with id 'resp_1' not found."},
		{"stored response", "GET", "/v1/responses/resp_1", ``, 404, "Response with id 'resp_1' not found."},
		{"scripted", "POST", "/v1/messages", `{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"[[sim:error 529]]"}]}`, 529, `"type":"error"`},
		{"unknown path", "GET", "/v1/nothing", ``, 404, `{"detail":"Not Found"}`},
		{"wrong method", "GET", "/v1/chat/completions", ``, 405, "Method Not Allowed"},
		{"token of another tokenizer", "POST", "/detokenize", `{"tokens":[5]}`, 400, "not in the vocabulary"},
		{"unknown fault", "POST", "/sim/fault", `{"fire":"yes"}`, 400, "unknown fault"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := slow()
			o.Engine.Blocks, o.Engine.MaxModelLen = 100, 600
			bubble(t, o, func(t *testing.T, h *harness) {
				status, body := h.call(tt.method, tt.path, tt.body)
				if status != tt.status || !strings.Contains(body, tt.text) {
					t.Errorf("status %d (want %d): %s\nwant %s", status, tt.status, body, tt.text)
				}
			})
		})
	}
}

func TestOlderVersionsRefuseWhatDoesNotFit(t *testing.T) {
	o := slow()
	o.Dialect = V026
	o.Engine.Blocks, o.Engine.MaxModelLen = 100, 600
	bubble(t, o, func(t *testing.T, h *harness) {
		status, body := h.call("POST", "/v1/chat/completions", `{"max_tokens":600,"messages":[{"role":"user","content":"hi"}]}`)
		want := "This model's maximum context length is 600 tokens. However, you requested 600 output tokens and your prompt contains at least 10 input tokens, for a total of at least 610 tokens."
		if status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("status %d: %s", status, body)
		}
		if _, metrics := h.call("GET", "/metrics", ""); strings.Contains(metrics, "cached_by_source") || strings.Contains(metrics, "admission_rejections") {
			t.Error("0.26 has metrics of 0.32")
		}
		if _, version := h.call("GET", "/version", ""); version != `{"version":"0.26.0+SIMULATED"}` {
			t.Errorf("version %s", version)
		}
	})
}

func TestAPIKeys(t *testing.T) {
	o := slow()
	o.APIKeys = []string{"k1", "k2"}
	bubble(t, o, func(t *testing.T, h *harness) {
		for _, tt := range []struct {
			path   string
			header []string
			status int
		}{
			{"/v1/models", nil, 401},
			{"/v1/models", []string{"Authorization", "Bearer k2"}, 200},
			{"/v1/models", []string{"Authorization", "bearer k1"}, 200},
			{"/v1/models", []string{"Authorization", "Bearer k3"}, 401},
			{"/v1/models", []string{"X-Api-Key", "k1"}, 401},
			{"/health", nil, 200},
			{"/metrics", nil, 200},
		} {
			if status, body := h.call("GET", tt.path, "", tt.header...); status != tt.status {
				t.Errorf("%s with %v: status %d, want %d: %s", tt.path, tt.header, status, tt.status, body)
			}
		}
	})
}

func TestHeadersOfVLLM(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		body := `{"messages":[{"role":"user","content":"[[sim:say x]]"}]}`
		if status, out := h.call("POST", "/v1/chat/completions", body, "X-Request-Id", "abc"); status != 200 || !strings.Contains(out, `"id":"chatcmpl-abc"`) {
			t.Errorf("request id: %d %s", status, out)
		}
		if status, _ := h.call("POST", "/v1/chat/completions", body, "X-Data-Parallel-Rank", "1"); status != 400 {
			t.Errorf("rank outside: status %d", status)
		}
		if status, _ := h.call("POST", "/v1/chat/completions", body, "X-Vllm-Priority", "soon"); status != 400 {
			t.Errorf("bad priority: status %d", status)
		}
	})
}

func TestQueueLimit(t *testing.T) {
	o := slow()
	o.MaxQueuedRequests = 1
	bubble(t, o, func(t *testing.T, h *harness) {
		resp, err := h.do(t.Context(), "POST", "/v1/completions", `{"prompt":"x","max_tokens":50,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if status, body := h.call("POST", "/v1/completions", `{"prompt":"x"}`); status != http.StatusServiceUnavailable {
			t.Errorf("status %d: %s", status, body)
		}
		if _, err := readEvents(resp.Body); err != nil {
			t.Error(err)
		}
	})
}

func TestReplayedTokens(t *testing.T) {
	o := slow()
	o.Tokenizer = prompt.Bytes
	bubble(t, o, func(t *testing.T, h *harness) {
		out := h.post("/v1/chat/completions", `{"allowed_token_ids":[121],"ignore_eos":true,"max_tokens":7,"messages":[{"role":"user","content":"hi"}]}`)
		if got := dig(out, "choices", 0, "message", "content"); got != "yyyyyyy" {
			t.Errorf("answer %v", got)
		}
		// <|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n
		if got := num(dig(out, "usage", "prompt_tokens")); got != 1+5+2+2+1+10 {
			t.Errorf("%d prompt tokens", got)
		}
	})
}

func TestNewRefusesWhatCannotServe(t *testing.T) {
	if _, err := New(Options{Engine: core.Config{Blocks: 10, MaxModelLen: 1000}}); err == nil {
		t.Error("a context larger than the cache was accepted")
	}
}
