package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"
)

// maxBody is more than any client sends; a router's own limit is below it.
const maxBody = 64 << 20

// Null is a field that is present with the value null, or absent. vLLM leaves
// out what was never set and writes null for what was set to nothing.
type Null string

// IsNull is the value of a Null field that is present.
const IsNull Null = "null"

// MarshalJSON implements json.Marshaler.
func (Null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// Encode writes JSON as pydantic does: no escaping of HTML.
func Encode(v any) []byte {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		// All shapes of the APIs marshal; only a bug gets here.
		return []byte(`{"error":{"message":"cannot encode the answer","type":"InternalServerError","param":null,"code":500}}`)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

// Write answers with a JSON body.
func Write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(Encode(v)) // a client that left is no error of the engine
}

// Fail answers with an error in an API's shape. It answers nothing where err is
// no *Error: then there is nobody left to answer.
func Fail(w http.ResponseWriter, err error, shape Shape) {
	var failure *Error
	if errors.As(err, &failure) {
		Write(w, failure.Status, shape(failure))
	}
}

// validator is a body that knows what it must have.
type validator interface{ Validate() *Error }

// Read decodes a JSON body and asks it, if it can tell, what it lacks. It
// reports whether the body is right; if not, it has answered. This is the work
// of vLLM's framework, before the API's own code: its errors have OpenAI's shape
// on every route.
func Read(w http.ResponseWriter, r *http.Request, into any) bool {
	err := decode(w, r, into)
	if v, ok := into.(validator); ok && err == nil {
		err = v.Validate()
	}
	if err != nil {
		Fail(w, err, OpenAI)
	}
	return err == nil
}

func decode(w http.ResponseWriter, r *http.Request, into any) *Error {
	media, _, _ := strings.Cut(strings.ToLower(r.Header.Get("Content-Type")), ";")
	if strings.TrimSpace(media) != "application/json" {
		return &Error{Status: http.StatusBadRequest, Type: "Bad Request", Message: "[\"Unsupported Media Type: Only 'application/json' is allowed\"]"}
	}
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return Invalid(Problem{"body", "body", "cannot read the body"})
	}
	if !json.Valid(raw.Bytes()) {
		return Invalid(Problem{"json_invalid", "body", "JSON decode error"})
	}
	if err := json.Unmarshal(raw.Bytes(), into); err != nil {
		return Invalid(misfit(err))
	}
	return nil
}

// misfit says in pydantic's words which value has the wrong type.
func misfit(err error) Problem {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return Problem{"value_error", "body", err.Error()}
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
	return Problem{kind + "_type", loc, "Input should be a valid " + noun}
}
