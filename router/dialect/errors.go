package dialect

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"

	"github.com/tidwall/gjson"
)

// Error is a refusal or failure in warden's own words.
type Error struct {
	Status  int    // HTTP status
	Code    string // OpenAI's error.code, e.g. "model_not_found"; "" for none
	Message string // names the object and the fix
}

type openAIError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

type anthropicError struct {
	Type  string `json:"type"`
	Error struct {
		Type    string `json:"type"`
		Message string `json:"message"`
	} `json:"error"`
	RequestID string `json:"request_id,omitempty"`
}

// ErrorBody is e as a response body of this API.
func (a API) ErrorBody(e Error, requestID string) []byte {
	if a.Anthropic() {
		var body anthropicError
		body.Type = "error"
		body.Error.Type = anthropicType(e.Status)
		body.Error.Message = e.Message
		body.RequestID = requestID
		return encode(body)
	}
	var body openAIError
	body.Error.Message = e.Message
	body.Error.Type = openAIType(e.Status)
	if e.Code != "" {
		body.Error.Code = &e.Code
	}
	return encode(body)
}

// ErrorEvent is e as an event inside a stream that has already begun. It is
// never followed by the API's end marker: the answer is not complete.
func (a API) ErrorEvent(e Error, requestID string) []byte {
	var event bytes.Buffer
	switch a {
	case Messages:
		event.WriteString("event: error\ndata: ")
		event.Write(a.ErrorBody(e, requestID))
	case Responses:
		event.WriteString("event: error\ndata: ")
		event.Write(encode(struct {
			Type    string  `json:"type"`
			Code    string  `json:"code"`
			Message string  `json:"message"`
			Param   *string `json:"param"`
		}{Type: "error", Code: "server_error", Message: e.Message}))
	default:
		event.WriteString("data: ")
		event.Write(a.ErrorBody(e, requestID))
	}
	event.WriteString("\n\n")
	return event.Bytes()
}

func openAIType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "service_unavailable_error"
	}
	if status >= 500 {
		return "server_error"
	}
	return "invalid_request_error"
}

func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	}
	if status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

// encode writes JSON without escaping <, > and &, which only browsers need and
// which makes the messages hard to read.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	// The types above hold strings only: encoding them cannot fail.
	_ = e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n")
}

// EngineDead reports whether an engine's error says that the engine process
// behind the API server is gone (vLLM: EngineDeadError's fixed message, all
// versions 0.24 to 0.32). Other 500s may be the request's own fault and must
// not be tried on every replica.
func EngineDead(text []byte) bool {
	return bytes.Contains(text, []byte("EngineCore encountered an issue")) ||
		bytes.Contains(text, []byte("EngineDeadError"))
}

// RolesMustAlternate reports whether an engine's error is that of a chat
// template that wants user and assistant in turns (Gemma, Mistral, Llama 2).
func RolesMustAlternate(text []byte) bool {
	return bytes.Contains(text, []byte("roles must alternate"))
}

// The wordings of vLLM's refusals of a prompt that does not fit: up to 0.31
// prompt plus max_tokens, from 0.32 the prompt alone (max_tokens is clamped);
// before 0.11 in other words. max_tokens above the context's length is refused
// before the prompt is counted.
var (
	sumTooLong = regexp.MustCompile(
		`maximum context length is (\d+) tokens\. However, you requested (\d+) output tokens and your prompt contains (?:at least )?(\d+) input tokens`)
	promptTooLong = regexp.MustCompile(
		`maximum context length is (\d+) tokens\. However, your prompt contains (?:at least )?(\d+) input tokens`)
	outputTooLong = regexp.MustCompile(
		`is too large: (\d+)\. This model's maximum context length is (\d+) tokens and your request has (\d+) input tokens`)
	outputAlone = regexp.MustCompile(
		`max(?:_completion)?_tokens=(\d+) cannot be greater than max_model_len=(\d+)`)
)

// AnthropicOverflow rewords vLLM's refusal of a request that does not fit as
// Anthropic words it, because Claude Code recovers by itself from that text (it
// lowers max_tokens to what is left, or compacts) and gives up on vLLM's.
// prompt is an estimate of the prompt's tokens, for the one refusal that does
// not state them. ok is false, and the body is to be passed on as it is, when
// body is no such refusal.
func AnthropicOverflow(body []byte, prompt int, requestID string) (reworded []byte, ok bool) {
	text := overflowText(gjson.GetBytes(body, "error.message").Str, prompt)
	if text == "" {
		return nil, false
	}
	return Messages.ErrorBody(Error{Status: http.StatusBadRequest, Message: text}, requestID), true
}

func overflowText(message string, prompt int) string {
	if m := sumTooLong.FindStringSubmatch(message); m != nil {
		if m[2] == "0" {
			return promptOverflow(m[3], m[1])
		}
		return sumOverflow(m[3], m[2], m[1])
	}
	if m := promptTooLong.FindStringSubmatch(message); m != nil {
		return promptOverflow(m[2], m[1])
	}
	if m := outputTooLong.FindStringSubmatch(message); m != nil {
		return sumOverflow(m[3], m[1], m[2])
	}
	if m := outputAlone.FindStringSubmatch(message); m != nil {
		// At most half of the context, so that the client has room to try
		// again: the engine's next word is exact.
		if limit, err := strconv.Atoi(m[2]); err == nil {
			return sumOverflow(strconv.Itoa(min(prompt, limit/2)), m[1], m[2])
		}
	}
	return ""
}

func sumOverflow(prompt, output, limit string) string {
	return "input length and `max_tokens` exceed context limit: " + prompt + " + " + output + " > " + limit +
		", decrease input length or `max_tokens` and try again"
}

func promptOverflow(prompt, limit string) string {
	return "prompt is too long: " + prompt + " tokens > " + limit + " maximum"
}
