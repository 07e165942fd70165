package dialect

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
		s := NewStream(api, Edits{})
		s.Feed(event)
		if !s.Failed {
			t.Errorf("%d: %q is not read as a failure", api, event)
		}
		if strings.Contains(string(event), "[DONE]") || strings.Contains(string(event), "stop") {
			t.Errorf("%d: %q looks like a finish", api, event)
		}
	}
}
