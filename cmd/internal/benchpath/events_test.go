package benchpath

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func piece(at int64) string {
	return `data: {"choices":[{"delta":{"content":"` + string(appendPiece(nil, at)) + `"}}]}` + "\n\n"
}

const end = "data: [DONE]\n\n"

// However a proxy cuts a stream into pieces, each event counts when its last
// byte has arrived, once.
func TestEventsAreTimedWhenTheyAreWhole(t *testing.T) {
	stream := []byte("data: {\"role\":\"assistant\"}\n\n" + piece(1000) + ": ping\n\n" + piece(2000) + end)
	for cut := range len(stream) + 1 {
		var e events
		completed := e.feed(stream[:cut], 5000) + e.feed(stream[cut:], 7000)
		if completed != 4 || e.messages != 4 || e.pieces != 2 || !e.done || len(e.rest) != 0 {
			t.Fatalf("cut at %d: %d completed, %+v", cut, completed, e)
		}
		want := []int64{6000, 5000}
		if first := bytes.Index(stream, []byte(piece(1000))) + len(piece(1000)); cut >= first {
			want[0] = 4000
		}
		if second := bytes.Index(stream, []byte(piece(2000))) + len(piece(2000)); cut >= second {
			want[1] = 3000
		}
		if !slices.Equal(e.delays, want) {
			t.Fatalf("cut at %d: delays %v, want %v", cut, e.delays, want)
		}
	}
}

func TestReadAll(t *testing.T) {
	c, err := newClock()
	if err != nil {
		t.Fatal(err)
	}
	whole := piece(1) + piece(2) + end
	for name, tc := range map[string]struct {
		body io.Reader
		want string // of the error; "" = none
	}{
		"whole":          {strings.NewReader(whole), ""},
		"byte by byte":   {iotest.OneByteReader(strings.NewReader(whole)), ""},
		"data with EOF":  {iotest.DataErrReader(strings.NewReader(whole)), ""},
		"without an end": {strings.NewReader(piece(1) + piece(2)), "after 2 of 2 pieces, its own end seen: false"},
		"a piece short":  {strings.NewReader(piece(1) + end), "after 1 of 2 pieces, its own end seen: true"},
		"broken":         {io.MultiReader(strings.NewReader(piece(1)), iotest.ErrReader(io.ErrUnexpectedEOF)), "broke after 1 of 2 pieces: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			var e events
			told := 0
			err := e.readAll(tc.body, make([]byte, 512), c, 2, func(n int) { told += n })
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if told != e.messages {
				t.Errorf("told of %d messages, %d arrived", told, e.messages)
			}
		})
	}
}

func TestStamps(t *testing.T) {
	for _, at := range []int64{0, 7, 1 << 40, 1<<63 - 1} {
		p := appendPiece(nil, at)
		if got, ok := stampIn([]byte("text " + string(p))); !ok || got != at || len(p) != stampLength {
			t.Errorf("%q reads as %d, %v", p, got, ok)
		}
	}
	for _, bad := range []string{"", "@", "@123 ", "@12345678901234567x9 "} {
		if got, ok := stampIn([]byte(bad)); ok {
			t.Errorf("%q reads as %d", bad, got)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add([]byte(piece(1)+": c\n\n"+end), 10)
	f.Add([]byte("data:\n\n\n\n\ndata: @"), 3)
	f.Fuzz(func(t *testing.T, stream []byte, cut int) {
		var whole, parts events
		cut = max(0, min(cut, len(stream)))
		whole.feed(stream, 9)
		parts.feed(stream[:cut], 9)
		parts.feed(stream[cut:], 9)
		if whole.messages != parts.messages || whole.pieces != parts.pieces || whole.done != parts.done ||
			!slices.Equal(whole.delays, parts.delays) || !bytes.Equal(whole.rest, parts.rest) {
			t.Errorf("cut at %d: %+v, whole: %+v", cut, parts, whole)
		}
	})
}

func FuzzScript(f *testing.F) {
	f.Add([]byte(script{Events: 3, Interval: 5}.words()))
	f.Add([]byte("bench-script 1 2"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if s := findScript(body); s.Events < 1 || s.Interval < 0 {
			t.Errorf("%+v", s)
		}
	})
}
