package dialect

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// The wordings of vLLM's refusals of a prompt that does not fit: up to 0.31
// prompt plus max_tokens, from 0.32 the prompt alone (max_tokens is clamped);
// before 0.11 in other words. A text that is far too long is refused by its
// characters, before it is turned into tokens, and max_tokens above the context's
// length before the prompt is counted.
var (
	sumTooLong = regexp.MustCompile(
		`maximum context length is (\d+) tokens\. However, you requested (\d+) output tokens and your prompt contains (?:at least )?(\d+) input tokens`)
	promptTooLong = regexp.MustCompile(
		`maximum context length is (\d+) tokens\. However, your prompt contains (?:at least )?(\d+) input tokens`)
	textTooLong = regexp.MustCompile(
		`maximum context length is (\d+) tokens\. However, (?:you requested \d+ output tokens and )?your prompt contains \d+ characters`)
	outputTooLong = regexp.MustCompile(
		`is too large: (\d+)\. This model's maximum context length is (\d+) tokens and your request has (\d+) input tokens`)
	outputAlone = regexp.MustCompile(
		`max(?:_completion)?_tokens=(\d+) cannot be greater than max_model_len=(\d+)`)
)

// overflow is a request that does not fit into the context, in tokens. Where
// output is 0 the prompt alone does not.
type overflow struct{ prompt, output, limit int }

// overflowOf reads an engine's refusal. estimate stands for the prompt's tokens
// where it does not state them.
func overflowOf(message string, estimate int) (o overflow, ok bool) {
	if m := numbers(sumTooLong, message); m != nil {
		return overflow{prompt: m[2], output: m[1], limit: m[0]}, true
	}
	if m := numbers(promptTooLong, message); m != nil {
		return overflow{prompt: m[1], limit: m[0]}, true
	}
	if m := numbers(textTooLong, message); m != nil {
		return overflow{prompt: max(estimate, m[0]+1), limit: m[0]}, true
	}
	if m := numbers(outputTooLong, message); m != nil {
		return overflow{prompt: m[2], output: m[0], limit: m[1]}, true
	}
	if m := numbers(outputAlone, message); m != nil {
		// At most half of the context, so that the client has room to try
		// again: the engine's next word is exact.
		return overflow{prompt: min(estimate, m[1]/2), output: m[0], limit: m[1]}, true
	}
	return overflow{}, false
}

// numbers are the groups of the first match, nil when there is none.
func numbers(wording *regexp.Regexp, message string) []int {
	match := wording.FindStringSubmatch(message)
	if match == nil {
		return nil
	}
	groups := make([]int, 0, len(match)-1)
	for _, text := range match[1:] {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil
		}
		groups = append(groups, n)
	}
	return groups
}

// Overflow rewords vLLM's refusal of a request that does not fit into the
// context as the API's own vendor words it, because clients recover by
// themselves from that and give up on vLLM's. estimate is the prompt's length in
// tokens, for refusals that do not state it. ok is false, and the body is to be
// passed on as it is, when it is no such refusal.
func (a API) Overflow(body []byte, estimate int, requestID string) (reworded []byte, ok bool) {
	o, ok := overflowOf(gjson.GetBytes(body, "error.message").Str, estimate)
	if !ok {
		return nil, false
	}
	switch a {
	case Messages:
		return a.ErrorBody(Error{Status: http.StatusBadRequest, Message: o.anthropic()}, requestID), true
	case Chat, Completions, Responses:
		return o.openAI(body)
	}
	return nil, false
}

// anthropic is the text from which Claude Code lowers max_tokens to what is
// left, or compacts.
func (o overflow) anthropic() string {
	if o.output == 0 {
		return fmt.Sprintf("prompt is too long: %d tokens > %d maximum", o.prompt, o.limit)
	}
	return fmt.Sprintf("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again",
		o.prompt, o.output, o.limit)
}

// openAI gives body the code by which Codex and others know that the
// conversation has become too long; vLLM's code is the status once more. Its
// message stays: it begins as OpenAI's does. So does the whole refusal of an
// output that would not fit even without a prompt: no shorter conversation mends
// that, and a client that is told so would compact for ever.
func (o overflow) openAI(body []byte) (reworded []byte, ok bool) {
	if o.output >= o.limit {
		return nil, false
	}
	reworded, err := sjson.SetBytes(body, "error.code", "context_length_exceeded")
	if err == nil {
		reworded, err = sjson.SetBytes(reworded, "error.type", openAIType(http.StatusBadRequest))
	}
	return reworded, err == nil
}
