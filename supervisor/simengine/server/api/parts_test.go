package api

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// recorder notes what Parts has it send, and fails at one of them.
type recorder struct {
	parts *Parts
	sent  []string
	fails string
}

var errSend = errors.New("cannot send")

func (r *recorder) note(format string, args ...any) error {
	r.sent = append(r.sent, fmt.Sprintf(format, args...))
	if slices.Contains(r.sent, r.fails) {
		return errSend
	}
	return nil
}

func (r *recorder) StartPart(first prompt.Piece) error {
	return r.note("start %d %s", r.parts.Index, first.Text)
}
func (r *recorder) PartDelta(p prompt.Piece) error {
	return r.note("delta %d %s", r.parts.Index, p.Text)
}
func (r *recorder) EndPart() error { return r.note("end %d", r.parts.Index) }

func text(s string) prompt.Piece { return prompt.Piece{Kind: prompt.Content, Text: s} }
func call(n int, s string) prompt.Piece {
	return prompt.Piece{Kind: prompt.CallStart, Text: s, Call: n}
}
func input(n int, s string) prompt.Piece {
	return prompt.Piece{Kind: prompt.CallArguments, Text: s, Call: n}
}

func TestParts(t *testing.T) {
	tests := []struct {
		name  string
		fails string
		steps [][]prompt.Piece // pieces that come with one token each
		want  []string
	}{
		{name: "nothing", want: nil},
		{name: "tokens that show nothing", steps: [][]prompt.Piece{nil, {text("")}}, want: nil},
		{
			name: "a text", steps: [][]prompt.Piece{{text("a")}, nil, {text("b")}},
			want: []string{"start 0 a", "delta 0 a", "delta 0 b", "end 0"},
		},
		{
			name: "two calls", steps: [][]prompt.Piece{{call(0, "Read"), input(0, "{")}, {input(0, "}"), call(1, "List")}, {input(1, "{}")}},
			want: []string{"start 0 Read", "delta 0 {", "delta 0 }", "end 0", "start 1 List", "delta 1 {}", "end 1"},
		},
		{
			name: "a text, a call and a text", steps: [][]prompt.Piece{{text("a"), call(0, "Read")}, {input(0, "{}")}, {text("b")}},
			want: []string{"start 0 a", "delta 0 a", "end 0", "start 1 Read", "delta 1 {}", "end 1", "start 2 b", "delta 2 b", "end 2"},
		},
		{
			name: "a start that fails", fails: "start 1 Read", steps: [][]prompt.Piece{{text("a")}, {call(0, "Read"), input(0, "{}")}},
			want: []string{"start 0 a", "delta 0 a", "end 0", "start 1 Read"},
		},
		{
			name: "an end that fails", fails: "end 0", steps: [][]prompt.Piece{{text("a")}, {call(0, "Read")}},
			want: []string{"start 0 a", "delta 0 a", "end 0"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var p Parts
			r := &recorder{parts: &p, fails: tt.fails}
			var err error
			for _, pieces := range tt.steps {
				if err = p.Add(r, pieces); err != nil {
					break
				}
			}
			if err == nil {
				err = errors.Join(p.End(r), p.End(r)) // the second has nothing to end
			}
			if failed := errors.Is(err, errSend); failed != (tt.fails != "") {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, r.sent); diff != "" {
				t.Error(diff)
			}
		})
	}
}
