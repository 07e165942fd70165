package wire

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// Error is an error as vLLM puts it on the wire.
type Error struct {
	Status  int
	Type    string
	Message string
	Param   string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Shape is how an API puts an error into a body.
type Shape func(*Error) any

// engineDead is vLLM's text when EngineCore has died.
const engineDead = "EngineCore encountered an issue. See stack trace (above) for the root cause."

// EngineDead is the error of every request once EngineCore has died.
func EngineDead() *Error {
	return &Error{Status: http.StatusInternalServerError, Type: "InternalServerError", Message: engineDead}
}

// BadRequest is an error of what a body asks for.
func BadRequest(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: "BadRequestError", Param: param, Message: fmt.Sprintf(format, args...)}
}

// BadValue is BadRequest with the parameter in the text, as vLLM's own
// validation puts it there.
func BadValue(param string, value int, format string, args ...any) *Error {
	text := fmt.Sprintf(format, args...)
	return BadRequest(param, "%s (parameter=%s, value=%d)", text, param, value)
}

// Scripted is an error that was asked for.
func Scripted(status int) *Error {
	kind := strings.TrimSuffix(strings.ReplaceAll(http.StatusText(status), " ", ""), "Error") + "Error"
	return &Error{Status: status, Type: kind, Message: fmt.Sprintf("%s error %d, as asked for", prompt.Label, status)}
}

// Problem is one finding of the check of a body's schema.
type Problem struct{ Kind, Loc, Text string }

// Missing is the finding that a required field is not there.
func Missing(field string) Problem { return Problem{"missing", "body." + field, "Field required"} }

// Invalid is an error of the body's schema; its loc is the parameter.
func Invalid(problems ...Problem) *Error {
	plural := ""
	if len(problems) > 1 {
		plural = "s"
	}
	message := fmt.Sprintf("%d validation error%s:", len(problems), plural)
	for _, p := range problems {
		message += fmt.Sprintf("\n  {'type': '%s', 'loc': '%s', 'msg': '%s'}", p.Kind, p.Loc, p.Text)
	}
	return &Error{Status: http.StatusBadRequest, Type: "Bad Request", Param: problems[0].Loc, Message: message}
}

type errorInfo struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// OpenAI is the Shape of errors on all routes but Anthropic's.
func OpenAI(e *Error) any {
	info := errorInfo{Message: e.Message, Type: e.Type, Code: e.Status}
	if e.Param != "" {
		info.Param = &e.Param
	}
	return map[string]errorInfo{"error": info}
}
