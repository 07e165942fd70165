package dialect

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

func TestReadAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		api  API
		body string
		want Summary
	}{
		{"chat", Chat, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}`,
			Summary{Usage: Usage{10, 8, 2}, Finish: FinishStop, Content: true, Ended: true}},
		{"chat, details null", Chat, `{"choices":[{"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":null}}`,
			Summary{Usage: Usage{10, -1, 2}, Finish: FinishLength, Content: true, Ended: true}},
		{"embeddings", Embeddings, `{"data":[{"embedding":[0.1]}],"usage":{"prompt_tokens":10,"total_tokens":10,"completion_tokens":0}}`,
			Summary{Usage: Usage{10, -1, 0}, Content: true, Ended: true}},
		{"messages", Messages, `{"content":[{"type":"tool_use"}],"stop_reason":"tool_use","usage":{"input_tokens":9,"output_tokens":3,"cache_read_input_tokens":2720,"cache_creation_input_tokens":5}}`,
			Summary{Usage: Usage{2734, 2720, 3}, Finish: FinishToolCalls, Content: true, Ended: true}},
		{"responses", Responses, `{"id":"resp_1","status":"incomplete","output":[{"type":"message"}],"usage":{"input_tokens":40,"output_tokens":7,"input_tokens_details":{"cached_tokens":0}}}`,
			Summary{Usage: Usage{40, 0, 7}, Finish: FinishLength, ResponseID: "resp_1", Content: true, Ended: true}},
		{"responses in a conversation", Responses, `{"id":"resp_1","status":"completed","conversation":{"id":"conv_1"},"output":[]}`,
			Summary{Usage: unmeasured, Finish: FinishStop, ResponseID: "resp_1", ConversationID: "conv_1", Ended: true}},
		{"nonsense numbers", Chat, `{"usage":{"prompt_tokens":-5,"completion_tokens":1e300,"prompt_tokens_details":{"cached_tokens":"8"}}}`,
			Summary{Usage: Usage{0, -1, 1 << 40}, Content: true, Ended: true}},
		{"not JSON", Chat, `{"usage":`, Summary{Usage: unmeasured}},
		{"tokenize", Plain, `{"count":3}`, Summary{Usage: unmeasured}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.api.ReadAnswer([]byte(c.body))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestErrorBodies(t *testing.T) {
	e := Error{Status: 404, Code: "model_not_found", Message: `no model "a<b"`}
	if got, want := string(Chat.ErrorBody(e, "r1")),
		`{"error":{"message":"no model \"a<b\"","type":"invalid_request_error","param":null,"code":"model_not_found"}}`; got != want {
		t.Errorf("OpenAI: %s", got)
	}
	if got, want := string(Messages.ErrorBody(e, "r1")),
		`{"type":"error","error":{"type":"not_found_error","message":"no model \"a<b\""},"request_id":"r1"}`; got != want {
		t.Errorf("Anthropic: %s", got)
	}
	for status, want := range map[int][2]string{
		400: {"invalid_request_error", "invalid_request_error"},
		401: {"authentication_error", "authentication_error"},
		403: {"permission_error", "permission_error"},
		413: {"invalid_request_error", "request_too_large"},
		429: {"rate_limit_error", "rate_limit_error"},
		502: {"server_error", "api_error"},
		503: {"service_unavailable_error", "overloaded_error"},
	} {
		if got := [2]string{openAIType(status), anthropicType(status)}; got != want {
			t.Errorf("%d: types %v, want %v", status, got, want)
		}
	}
}

// An error event must be one that the scanner itself takes for a failure, and
// must not carry an end marker.
func TestErrorEventsAreFailures(t *testing.T) {
	for _, api := range []API{Chat, Completions, Responses, Messages} {
		event := api.ErrorEvent(Error{Status: 502, Message: "replica r0 died"}, "r1")
		s := NewStream(api, false)
		s.Feed(event)
		if !s.Failed {
			t.Errorf("%d: %q is not read as a failure", api, event)
		}
		if strings.Contains(string(event), "[DONE]") || strings.Contains(string(event), "stop") {
			t.Errorf("%d: %q looks like a finish", api, event)
		}
	}
}

func TestAnthropicOverflow(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{"This model's maximum context length is 40960 tokens. However, you requested 32000 output tokens and your prompt contains at least 21000 input tokens, for a total of at least 53000 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=21000)",
			"input length and `max_tokens` exceed context limit: 21000 + 32000 > 40960, decrease input length or `max_tokens` and try again"},
		{"This model's maximum context length is 40960 tokens. However, you requested 0 output tokens and your prompt contains at least 40961 input tokens, for a total of at least 40961 tokens.",
			"prompt is too long: 40961 tokens > 40960 maximum"},
		{"This model's maximum context length is 16384 tokens. However, your prompt contains at least 16385 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
			"prompt is too long: 16385 tokens > 16384 maximum"},
		{"'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 40960 tokens and your request has 21000 input tokens (32000 > 40960 - 21000).",
			"input length and `max_tokens` exceed context limit: 21000 + 32000 > 40960, decrease input length or `max_tokens` and try again"},
		{"max_tokens=64000 cannot be greater than max_model_len=40960. Please request fewer output tokens. (parameter=max_tokens, value=64000)",
			"input length and `max_tokens` exceed context limit: 20480 + 64000 > 40960, decrease input length or `max_tokens` and try again"},
		{"max_completion_tokens=64000 cannot be greater than max_model_len=50000.",
			"input length and `max_tokens` exceed context limit: 21000 + 64000 > 50000, decrease input length or `max_tokens` and try again"},
		{"max_tokens must be at least 1, got 0.", ""},
	} {
		body, err := json.Marshal(map[string]any{"type": "error", "error": map[string]any{"type": "BadRequestError", "message": c.message}})
		if err != nil {
			t.Fatal(err)
		}
		got, ok := AnthropicOverflow(body, 21000, "r1")
		if ok != (c.want != "") || gjson.GetBytes(got, "error.message").Str != c.want {
			t.Errorf("%q\nbecame %q\nwant   %q", c.message, got, c.want)
		}
	}
}
