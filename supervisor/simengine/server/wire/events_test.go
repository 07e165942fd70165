package wire

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// played sends events until one may not go out, and then what ends the stream.
func played(cut prompt.Cut) (body string, aborted any, ended error) {
	w := httptest.NewRecorder()
	func() {
		defer func() { aborted = recover() }()
		e := Open(w, httptest.NewRequest(http.MethodPost, "/", nil), cut)
		for n := range 3 {
			if ended = e.Send("n", n); ended != nil {
				break
			}
		}
		var failure *Error
		if errors.As(ended, &failure) {
			e.Last("error", failure.Status)
		}
		if ended == nil {
			e.Done()
		}
	}()
	return w.Body.String(), aborted, ended
}

func TestCuts(t *testing.T) {
	const first, rest = "event: n\ndata: 0\n\n", "event: n\ndata: 1\n\nevent: n\ndata: 2\n\n"
	tests := []struct {
		kind    prompt.CutKind
		after   int
		body    string
		ended   bool // Send said so
		aborted bool // the connection goes with it
	}{
		{prompt.NoCut, 0, first + rest + "data: [DONE]\n\n", false, false},
		{prompt.Truncate, 9, first + rest + "data: [DONE]\n\n", false, false},
		{prompt.Truncate, 1, first, true, false},
		{prompt.Truncate, 0, "", true, false},
		{prompt.StreamError, 1, first + "event: error\ndata: 500\n\n", true, false},
		{prompt.Close, 1, first, false, true},
		{prompt.Reset, 1, first, false, true},
	}
	for _, tt := range tests {
		body, aborted, ended := played(prompt.Cut{Kind: tt.kind, After: tt.after})
		if body != tt.body || (ended != nil) != tt.ended || (aborted == any(http.ErrAbortHandler)) != tt.aborted {
			t.Errorf("%s after %d: %v, %v, body %q; want %+v", tt.kind, tt.after, ended, aborted, body, tt)
		}
	}
}
