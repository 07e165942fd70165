package wire

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type sample struct {
	embedded
	List  []struct{ A string } `json:"list"`
	Float float64              `json:"float"`
}

type embedded struct {
	Flag bool `json:"flag"`
	Name string
}

// Validate wants a name.
func (s *sample) Validate() *Error {
	if s.Name == "" {
		return Invalid(Missing("name"))
	}
	return nil
}

func TestRead(t *testing.T) {
	tests := []struct {
		name, media, body string
		want              string // in the answer; "" where the body is right
	}{
		{"right", "application/json", `{"name":"n"}`, ""},
		{"charset", "Application/JSON; charset=utf-8", `{"name":"n"}`, ""},
		{"no media type", "", `{"name":"n"}`, `Unsupported Media Type`},
		{"no JSON", "application/json", `{"name":"n"`, `'type': 'json_invalid', 'loc': 'body'`},
		{"lacking", "application/json", `{}`, `'type': 'missing', 'loc': 'body.name', 'msg': 'Field required'`},
		{"list", "application/json", `[]`, `'type': 'dict_type', 'loc': 'body', 'msg': 'Input should be a valid dictionary'`},
		{"embedded", "application/json", `{"flag":1}`, `'type': 'bool_type', 'loc': 'body.flag', 'msg': 'Input should be a valid boolean'`},
		{"number", "application/json", `{"float":"x"}`, `'type': 'float_type', 'loc': 'body.float', 'msg': 'Input should be a valid number'`},
		{"nested", "application/json", `{"list":[{"A":7}]}`, `'type': 'string_type', 'loc': 'body.A', 'msg': 'Input should be a valid string'`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tt.body))
			if tt.media != "" {
				r.Header.Set("Content-Type", tt.media)
			}
			w := httptest.NewRecorder()
			right := Read(w, r, new(sample))
			if right != (tt.want == "") || right != (w.Body.Len() == 0) {
				t.Errorf("right %v, answered %q", right, w.Body)
			}
			if !right && (w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), tt.want)) {
				t.Errorf("%d %s\nwant %s", w.Code, w.Body, tt.want)
			}
		})
	}
}
