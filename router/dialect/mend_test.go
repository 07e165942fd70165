package dialect

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

func TestMendUsage(t *testing.T) {
	for _, c := range []struct{ name, answer, want string }{
		{"read", `{"usage":{"input_tokens":0,"output_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":2720}, "n":1e0}`,
			`{"usage":{"input_tokens":1,"output_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":2719}, "n":1e0}`},
		{"read and written", `{"usage":{"cache_read_input_tokens":2704,"cache_creation_input_tokens": 16 ,"input_tokens": 0 }}`,
			`{"usage":{"cache_read_input_tokens":2704,"cache_creation_input_tokens": 15 ,"input_tokens": 1 }}`},
		{"written", `{"usage":{"input_tokens":0,"cache_creation_input_tokens":1000}}`, `{"usage":{"input_tokens":1,"cache_creation_input_tokens":999}}`},
		{"one", `{"usage":{"input_tokens":0,"cache_read_input_tokens":1}}`, `{"usage":{"input_tokens":1,"cache_read_input_tokens":0}}`},
		{"some are not cached", `{"usage":{"input_tokens":9,"cache_read_input_tokens":2720}}`, ""},
		{"nothing is cached", `{"usage":{"input_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}`, ""},
		{"no cache fields", `{"usage":{"input_tokens":0,"output_tokens":3}}`, ""},
		{"other numbers", `{"usage":{"input_tokens":0,"cache_read_input_tokens":2.5,"cache_creation_input_tokens":"7"}}`, ""},
		{"in the text only", `{"content":[{"text":"usage","usage":{"input_tokens":0,"cache_read_input_tokens":9}}]}`, ""},
		{"null", `{"usage":null}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := c.want
			if want == "" {
				want = c.answer
			}
			if got, changed := MendUsage([]byte(c.answer)); string(got) != want || changed != (c.want != "") {
				t.Errorf("%v\n%s, want\n%s", changed, got, want)
			}
		})
	}
}

// In a stream only the figures of message_delta change, wherever it is cut, and
// what is measured is what the engine said.
func TestMendedStream(t *testing.T) {
	sent := strings.Replace(messagesStream, `"input_tokens":9`, `"input_tokens":0`, 1)
	want := strings.Replace(strings.Replace(sent, `"usage":{"input_tokens":0,`, `"usage":{"input_tokens":1,`, 1), ":2720,", ":2719,", 1)
	text := "event: content_block_delta\n" +
		`data: {"type":"content_block_delta","delta":{"text":"a","kind":"message_delta"},"usage":{"input_tokens":0,"cache_read_input_tokens":8}}` + "\n\n"
	for size := 1; size < 900; size += 7 {
		out, s := feed(Messages, mending, text+sent, size)
		if out != text+want {
			t.Fatalf("pieces of %d bytes:\n%s\nwant\n%s", size, out, text+want)
		}
		if (s.Usage != Usage{2720, 2720, 3}) || !s.Ended {
			t.Fatalf("pieces of %d bytes: measured %+v", size, s.Summary)
		}
	}
	for name, same := range map[string]string{"nothing to mend": messagesStream, "another API's": chatHead + chatFinish + chatUsageChunk + chatDone} {
		if out, _ := feed(Messages, mending, same, 100); out != same {
			t.Errorf("%s: %s", name, out)
		}
	}
}

func TestMendingDelaysNothing(t *testing.T) {
	s := NewStream(Messages, mending)
	for _, event := range strings.SplitAfter(messagesStream, "\n\n") {
		if out, _ := s.Feed([]byte(event)); string(out) != event {
			t.Fatalf("%q was passed on as %q", event, out)
		}
	}
}

func FuzzMendUsage(f *testing.F) {
	f.Add([]byte(`{"usage":{"input_tokens":0,"output_tokens":3,"cache_creation_input_tokens":0,"cache_read_input_tokens":2720}}`))
	f.Add([]byte(`{"usage":{"cache_read_input_tokens":10,"input_tokens":0},"usage":{"input_tokens":0}}`))
	f.Add([]byte(`{"usage":{"input_tokens":0,"cache_read_input_tokens":5`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		mended, changed := MendUsage(answer)
		if !changed {
			if string(mended) != string(answer) {
				t.Fatalf("changed: %q", mended)
			}
			return
		}
		sum := func(doc []byte) (n int64) {
			for _, field := range []string{"input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"} {
				n += gjson.GetBytes(doc, "usage."+field).Int()
			}
			return n
		}
		if gjson.GetBytes(mended, "usage.input_tokens").Raw != "1" || gjson.ValidBytes(answer) && sum(mended) != sum(answer) {
			t.Fatalf("%q became %q", answer, mended)
		}
	})
}
