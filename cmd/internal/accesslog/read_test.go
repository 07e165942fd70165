package accesslog

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadNamesTheLine(t *testing.T) {
	good := string(LineOf(answered("a"), false).appendTo(nil))
	for name, c := range map[string]struct {
		text, err string
		lines     int
		cut       bool
	}{
		"nothing":           {"", "", 0, false},
		"two":               {good + good, "", 2, false},
		"of a later warden": {strings.Replace(good, `"retries"`, `"novelty":{"x":1},"retries"`, 1), "", 1, false},
		"being written":     {good + good[:50], "", 1, true},
		"truncated within":  {good + good[:50] + "\n" + good, "access.log:2: not a line of warden's access log", 0, false},
		"foreign JSON":      {good + `{"level":"info","msg":"hello"}` + "\n", "access.log:2: not a line of warden's access log: time is missing", 0, false},
		"foreign text":      {"127.0.0.1 - - [30/Nov/2026] \"GET / HTTP/1.1\" 200\n", "access.log:1: not a line", 0, false},
		"negative tokens":   {strings.Replace(good, `"prompt_tokens":12000`, `"prompt_tokens":-1`, 1), "access.log:1: not a line of warden's access log: prompt_tokens -1", 0, false},
		"another outcome":   {strings.Replace(good, `"complete"`, `"fine"`, 1), `outcome "fine" is none of`, 0, false},
		"no end of line":    {strings.Repeat("x", maxLine+1), "access.log:1: longer than 65536 bytes", 0, false},
	} {
		lines, cut, err := Read(strings.NewReader(c.text), "access.log")
		if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: error %v, want %q", name, err, c.err)
		}
		if len(lines) != c.lines || cut != c.cut {
			t.Errorf("%s: %d lines, cut %v", name, len(lines), cut)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(LineOf(answered("a"), true).appendTo(nil))
	f.Add(LineOf(refused("b"), false).appendTo(nil))
	f.Add([]byte(`{"time":"2026-11-30T12:00:00Z","path":"/","outcome":"cut","prompt_tokens":1e999}`))
	f.Add([]byte("null\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		line, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(line.appendTo(nil))
		if err != nil {
			t.Fatalf("%q was read but what is written of it is not: %v", text, err)
		}
		if diff := cmp.Diff(line, again); diff != "" {
			t.Errorf("%q: written and read again it differs:\n%s", text, diff)
		}
	})
}
