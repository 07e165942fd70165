package dialect

import (
	"bytes"
	"encoding/json"
	"net/http"
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
