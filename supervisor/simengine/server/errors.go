package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// apiError is an error as vLLM puts it on the wire.
type apiError struct {
	Status  int
	Type    string
	Message string
	Param   string
}

// Error implements error.
func (e *apiError) Error() string { return e.Message }

// engineDead is vLLM's text when EngineCore has died.
const engineDead = "EngineCore encountered an issue. See stack trace (above) for the root cause."

func errEngineDead() *apiError {
	return &apiError{Status: http.StatusInternalServerError, Type: "InternalServerError", Message: engineDead}
}

func badRequest(param, format string, args ...any) *apiError {
	return &apiError{Status: http.StatusBadRequest, Type: "BadRequestError", Param: param, Message: fmt.Sprintf(format, args...)}
}

// badValue is badRequest with the parameter in the text, as vLLM's own
// validation puts it there.
func badValue(param string, value int, format string, args ...any) *apiError {
	text := fmt.Sprintf(format, args...)
	return badRequest(param, "%s (parameter=%s, value=%d)", text, param, value)
}

// invalid is an error of the body's schema; its loc is the parameter.
func invalid(problems ...problem) *apiError {
	plural := ""
	if len(problems) > 1 {
		plural = "s"
	}
	message := fmt.Sprintf("%d validation error%s:", len(problems), plural)
	for _, p := range problems {
		message += fmt.Sprintf("\n  {'type': '%s', 'loc': '%s', 'msg': '%s'}", p.kind, p.loc, p.text)
	}
	return &apiError{Status: http.StatusBadRequest, Type: "Bad Request", Param: problems[0].loc, Message: message}
}

// problem is one finding of the schema check.
type problem struct{ kind, loc, text string }

func missing(field string) problem { return problem{"missing", "body." + field, "Field required"} }

// scriptedError is an error that was asked for.
func scriptedError(status int) *apiError {
	kind := strings.ReplaceAll(http.StatusText(status), " ", "") + "Error"
	return &apiError{Status: status, Type: kind, Message: fmt.Sprintf("%s error %d, as asked for", prompt.Label, status)}
}

type errorInfo struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// openAI is the body of the error on all routes but Anthropic's.
func (e *apiError) openAI() any {
	info := errorInfo{Message: e.Message, Type: e.Type, Code: e.Status}
	if e.Param != "" {
		info.Param = &e.Param
	}
	return map[string]errorInfo{"error": info}
}

// anthropic is the body of the error on /v1/messages.
func (e *apiError) anthropic() any {
	return anthropicFailure{Type: "error", Error: anthropicInfo{Type: e.Type, Message: e.Message}}
}

type anthropicFailure struct {
	Type  string        `json:"type"`
	Error anthropicInfo `json:"error"`
}

type anthropicInfo struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func failOpenAI(w http.ResponseWriter, e *apiError)    { writeJSON(w, e.Status, e.openAI()) }
func failAnthropic(w http.ResponseWriter, e *apiError) { writeJSON(w, e.Status, e.anthropic()) }

// encode writes JSON as pydantic does: no escaping of HTML.
func encode(v any) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		// All wire types of this package marshal; only a bug gets here.
		return []byte(`{"error":{"message":"cannot encode the answer","type":"InternalServerError","param":null,"code":500}}`)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(encode(v)) // a client that left is no error of the engine
}

// readBody decodes a JSON body. Its errors are vLLM's validation errors, which
// have the OpenAI shape on every route.
func readBody(w http.ResponseWriter, r *http.Request, into any) *apiError {
	media, _, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	if strings.TrimSpace(media) != "application/json" {
		return &apiError{Status: http.StatusBadRequest, Type: "Bad Request", Message: "[\"Unsupported Media Type: Only 'application/json' is allowed\"]"}
	}
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return invalid(problem{"body", "body", "cannot read the body"})
	}
	if !json.Valid(raw.Bytes()) {
		return invalid(problem{"json_invalid", "body", "JSON decode error"})
	}
	if err := json.Unmarshal(raw.Bytes(), into); err != nil {
		return invalid(misfit(err))
	}
	return nil
}

// misfit says in pydantic's words which value has the wrong type.
func misfit(err error) problem {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return problem{"value_error", "body", err.Error()}
	}
	loc := "body"
	if wrong.Field != "" {
		// Only the last name of the path: the others may be Go's (embedded structs).
		loc += "." + wrong.Field[strings.LastIndex(wrong.Field, ".")+1:]
	}
	kind, noun := "dict", "dictionary"
	switch wrong.Type.Kind() {
	case reflect.String:
		kind, noun = "string", "string"
	case reflect.Bool:
		kind, noun = "bool", "boolean"
	case reflect.Slice:
		kind, noun = "list", "list"
	case reflect.Float64:
		kind, noun = "float", "number"
	case reflect.Int, reflect.Uint64:
		kind, noun = "int", "integer"
	}
	return problem{kind + "_type", loc, "Input should be a valid " + noun}
}
