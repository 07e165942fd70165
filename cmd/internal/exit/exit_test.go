package exit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/control"
)

func TestCodeAndHint(t *testing.T) {
	cause := errors.New("cause")
	refused := &control.Error{Message: "no", Hint: "ask again"}
	tests := map[string]struct {
		err  error
		code int
		hint string
	}{
		"none":                       {nil, OK, ""},
		"plain":                      {cause, Failed, ""},
		"failure":                    {Fail(Preflight, cause, "mend it"), Preflight, "mend it"},
		"wrapped":                    {fmt.Errorf("up: %w", Fail(Config, cause, "mend it")), Config, "mend it"},
		"the hint within":            {Fail(Start, refused, ""), Start, "ask again"},
		"its own before that within": {Fail(Start, refused, "mend it"), Start, "mend it"},
		"no daemon":                  {fmt.Errorf("dial: %w", control.ErrNoDaemon), NoDaemon, ""},
		"Ctrl-C":                     {context.Canceled, OK, ""},
		"second Ctrl-C":              {errors.Join(Fail(Start, cause, ""), ErrForced), Forced, ""},
	}
	for name, tt := range tests {
		if code, hint := CodeOf(tt.err), HintOf(tt.err); code != tt.code || hint != tt.hint {
			t.Errorf("%s: code %d, hint %q; want %d, %q", name, code, hint, tt.code, tt.hint)
		}
	}
	if err := Fail(Start, nil, "mend it"); err != nil {
		t.Errorf("nothing failed: %v", err)
	}
}

// An error arrives in another process with its code and its way out.
func TestReportTravels(t *testing.T) {
	for _, sent := range []error{nil, Fail(Config, errors.New("bad key"), "rename it"), errors.New("plain")} {
		line, err := json.Marshal(ReportOf(sent))
		if err != nil {
			t.Fatal(err)
		}
		var r Report
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		got := r.Err()
		if (got == nil) != (sent == nil) || CodeOf(got) != CodeOf(sent) || HintOf(got) != HintOf(sent) {
			t.Errorf("%v arrived as %v (%s)", sent, got, line)
		}
		if sent != nil {
			if diff := cmp.Diff(sent.Error(), got.Error()); diff != "" {
				t.Error(diff)
			}
		}
	}
}
