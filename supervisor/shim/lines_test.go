package shim

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// split feeds chunks, a second apart, and marks redraws with a leading ~.
func split(chunks ...string) []string {
	var s splitter
	var got []string
	emit := func(text string, redraw bool) {
		if redraw {
			text = "~" + text
		}
		got = append(got, text)
	}
	for i, c := range chunks {
		s.write([]byte(c), noon.Add(time.Duration(i)*time.Second), emit)
	}
	s.finish(emit)
	return got
}

func TestSplitter(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	tests := []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"lines", []string{"a\nb\n"}, []string{"a", "b"}},
		{"over chunks", []string{"a", "b\nc", "d\n"}, []string{"ab", "cd"}},
		{"empty line", []string{"a\n\nb\n"}, []string{"a", "", "b"}},
		{"no end", []string{"a\nb"}, []string{"a", "b"}},
		{"dos", []string{"a\r\nb\r\n"}, []string{"~a", "a", "b"}},
		{"bar at once is folded", []string{"\r0%\r50%\r100%\n", "next\n"}, []string{"~0%", "100%", "next"}},
		{"bar over time is told", []string{"\r0%", "\r50%", "\r100%\n"}, []string{"~0%", "~50%", "100%"}},
		{"bar that never ends", []string{"\r0%", "\r50%"}, []string{"~0%", "~50%", "50%"}},
		{"bar wiped by blanks", []string{"\r50%\r    \rdone\n"}, []string{"~50%", "done"}},
		{"colours go", []string{"\x1b[1;32mok\x1b[0m \x1b]0;title\x07end\x1b]8;;u\x1b\\\n"}, []string{"ok end"}},
		{"controls go, tab stays", []string{"a\x00b\tc\x7f\x07\n"}, []string{"ab\tc"}},
		{"bad bytes", []string{"a\xffb\n"}, []string{"a\ufffdb"}},
		{"trailing blanks go", []string{"a  \t\n"}, []string{"a"}},
		{"exactly long", []string{long + "\n"}, []string{long}},
		{"too long", []string{long, "yz\nnext\n"}, []string{long + cutMark, "next"}},
		{"nothing", []string{""}, nil},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, split(tt.chunks...)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("a\nb\r\nc\r50%\r100%\n\x1b[31mred\x1b[0m"), 3)
	f.Add([]byte("\x1b]0;never ended"), 1)
	f.Add([]byte{0xff, '\r', 0xc3}, 2)
	f.Fuzz(func(t *testing.T, data []byte, size int) {
		size = max(size%64, 1)
		var s splitter
		var lines int
		emit := func(text string, redraw bool) {
			if len(text) > 3*maxLine+len(cutMark) { // a bad byte becomes three
				t.Fatalf("line of %d bytes", len(text))
			}
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\r\n\x00\x1b") {
				t.Fatalf("unsafe line %q", text)
			}
			if !redraw {
				lines++
			}
		}
		for rest := data; len(rest) > 0; {
			n := min(size, len(rest))
			s.write(rest[:n], noon, emit)
			rest = rest[n:]
		}
		s.finish(emit)
		if ends := strings.Count(string(data), "\n"); lines < ends || lines > ends+1 {
			t.Fatalf("%d lines from %d line ends", lines, ends)
		}
	})
}

func TestRedactor(t *testing.T) {
	r := newRedactor(
		[]string{"HF_TOKEN=env-secret-1", "VLLM_API_KEY=env-secret-2", "PATH=/usr/bin", "A_TOKEN=short"},
		[]string{"vllm", "serve", "m", "--api-key", "arg-secret-1", "--hf-token=arg-secret-2", "--tokenizer", "/models/tokenizer",
			"--max-num-batched-tokens", "20480000", "--enable-token", "--seed"},
	)
	tests := []struct{ in, want string }{
		{"a env-secret-1 b env-secret-2", "a [hidden] b [hidden]"},
		{"args: arg-secret-1 arg-secret-2", "args: [hidden] [hidden]"},
		{"other hf_abcdefghijklmnopqrst and sk-abcdefghijklmnopqrst.", "other [hidden] and [hidden]."},
		{"/usr/bin /models/tokenizer 20480000 --seed short task-force", "/usr/bin /models/tokenizer 20480000 --seed short task-force"},
	}
	for _, tt := range tests {
		if got := r.apply(tt.in); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := newRedactor(nil, nil).apply("plain"); got != "plain" {
		t.Errorf("no secrets: %q", got)
	}
}
