package dialect

import (
	"encoding/json"
	"testing"

	"github.com/tidwall/gjson"
)

// Whatever vLLM says, Anthropic's clients get figures to act on, and OpenAI's
// the code for a conversation that is too long, where a shorter one would do.
func TestOverflow(t *testing.T) {
	for _, c := range []struct {
		message, want string
		long          bool // the conversation is
	}{
		{"This model's maximum context length is 40960 tokens. However, you requested 32000 output tokens and your prompt contains at least 21000 input tokens, for a total of at least 53000 tokens. Please reduce the length of the input prompt or the number of requested output tokens. (parameter=input_tokens, value=21000)",
			"input length and `max_tokens` exceed context limit: 21000 + 32000 > 40960, decrease input length or `max_tokens` and try again", true},
		{"This model's maximum context length is 40960 tokens. However, you requested 0 output tokens and your prompt contains at least 40961 input tokens, for a total of at least 40961 tokens.",
			"prompt is too long: 40961 tokens > 40960 maximum", true},
		{"This model's maximum context length is 16384 tokens. However, your prompt contains at least 16385 input tokens, which exceeds this limit even without any output tokens. Please reduce the length of the input prompt.",
			"prompt is too long: 16385 tokens > 16384 maximum", true},
		{"'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 40960 tokens and your request has 21000 input tokens (32000 > 40960 - 21000).",
			"input length and `max_tokens` exceed context limit: 21000 + 32000 > 40960, decrease input length or `max_tokens` and try again", true},
		{"max_tokens=64000 cannot be greater than max_model_len=40960. Please request fewer output tokens. (parameter=max_tokens, value=64000)",
			"input length and `max_tokens` exceed context limit: 20480 + 64000 > 40960, decrease input length or `max_tokens` and try again", false},
		{"max_completion_tokens=64000 cannot be greater than max_model_len=50000.",
			"input length and `max_tokens` exceed context limit: 21000 + 64000 > 50000, decrease input length or `max_tokens` and try again", false},
		{"This model's maximum context length is 16384 tokens. However, your prompt contains 900000 characters (more than 163830 characters, which is the upper bound for 16383 input tokens). Please reduce the length of the input prompt. (parameter=input_text, value=900000)",
			"prompt is too long: 21000 tokens > 16384 maximum", true},
		{"This model's maximum context length is 40960 tokens. However, you requested 100 output tokens and your prompt contains 900000 characters (more than 408600 characters, which is the upper bound for 40860 input tokens).",
			"prompt is too long: 40961 tokens > 40960 maximum", true},
		{"This model's maximum context length is 40960 tokens. However, you requested 41000 output tokens and your prompt contains at least 5 input tokens",
			"input length and `max_tokens` exceed context limit: 5 + 41000 > 40960, decrease input length or `max_tokens` and try again", false},
		{"This model's maximum context length is 99999999999999999999 tokens. However, your prompt contains 5 input tokens", "", false},
		{"max_tokens must be at least 1, got 0.", "", false},
	} {
		quoted, err := json.Marshal(c.message)
		if err != nil {
			t.Fatal(err)
		}
		body := `{"type":"error","error":{"type":"BadRequestError","message":` + string(quoted) + `}}`
		got, ok := Messages.Overflow([]byte(body), 21000, "r1")
		if ok != (c.want != "") || gjson.GetBytes(got, "error.message").Str != c.want {
			t.Errorf("%q\nbecame %q\nwant   %q", c.message, got, c.want)
		}
		for _, api := range []API{Chat, Completions, Responses} {
			body := `{"error":{"message":` + string(quoted) + `,"type":"BadRequestError","param":"input_tokens","code":400}}`
			want := `{"error":{"message":` + string(quoted) + `,"type":"invalid_request_error","param":"input_tokens","code":"context_length_exceeded"}}`
			got, ok := api.Overflow([]byte(body), 21000, "r1")
			if ok != c.long || c.long && string(got) != want {
				t.Errorf("%d: %q\nbecame %v %s\nwant   %v %s", api, c.message, ok, got, c.long, want)
			}
		}
		for _, api := range []API{Embeddings, CountTokens, Plain} {
			if got, ok := api.Overflow([]byte(body), 21000, "r1"); ok {
				t.Errorf("%d: %q became %s", api, c.message, got)
			}
		}
	}
}

// No refusal makes a body of something that was none.
func FuzzOverflow(f *testing.F) {
	f.Add([]byte(`{"error":{"message":"This model's maximum context length is 16384 tokens. However, your prompt contains at least 16385 input tokens","type":"BadRequestError","param":null,"code":400}}`), uint8(Chat))
	f.Add([]byte(`{"error":{"message":"max_tokens=64000 cannot be greater than max_model_len=40960."}}`), uint8(Messages))
	f.Add([]byte(`{"error":{"message":"maximum context length is 1 tokens. However, your prompt contains 2 characters","code"`), uint8(Responses))
	f.Fuzz(func(t *testing.T, body []byte, api uint8) {
		got, ok := API(api%7).Overflow(body, 100, "r1")
		if ok && json.Valid(body) && !json.Valid(got) {
			t.Errorf("%q became %q", body, got)
		}
	})
}
