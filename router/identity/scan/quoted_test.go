package scan

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// quotedOf is the string that text, a JSON string, holds.
func quotedOf(t *testing.T, text string) quoted {
	t.Helper()
	c := cursor{src: []byte(text)}
	q := c.quoted()
	if c.bad || c.pos != len(text) {
		t.Fatalf("%q is no JSON string", text)
	}
	return q
}

// quotedByByte is quoted as one would write it first.
func quotedByByte(src []byte) (q quoted, end int, ok bool) {
	for i := 1; i < len(src); i++ {
		switch src[i] {
		case '"':
			q.raw = src[1:i]
			return q, i + 1, true
		case '\\':
			q.slashes++
			if i++; i == len(src) {
				break
			}
			q.variants = q.variants || src[i] == 'u'
			if src[i] == '\\' {
				q.slashes++
			}
		}
	}
	return quoted{}, 0, false
}

// checkQuoted reads strings one after the other, as far as there are any.
func checkQuoted(t *testing.T, text []byte) {
	t.Helper()
	for c := (cursor{src: text}); ; {
		at := bytes.IndexByte(text[c.pos:], '"')
		if at < 0 {
			return
		}
		c.pos += at
		want, end, ok := quotedByByte(text[c.pos:])
		end += c.pos
		got := c.quoted()
		if c.bad == ok || ok && c.pos != end || !bytes.Equal(got.raw, want.raw) || got.slashes != want.slashes || got.variants != want.variants {
			t.Fatalf("%q: got %+v up to %d, want %+v up to %d", text, got, c.pos, want, end)
		}
		if c.bad {
			return
		}
	}
}

// Runs of backslashes and quotes at each place of a block and across blocks.
func TestQuoted(t *testing.T) {
	for before := range 2*block + 2 {
		for _, run := range []string{``, `\`, `\\`, `\\\`, strings.Repeat(`\`, block-1), strings.Repeat(`\`, block), strings.Repeat(`\`, 2*block+1)} {
			for _, after := range []string{`"`, `u00e9"`, `"x"`, `""`, ``, `\u`, `"` + strings.Repeat("x", block)} {
				checkQuoted(t, []byte(`"`+strings.Repeat("x", before)+run+after))
			}
		}
	}
}

func FuzzQuoted(f *testing.F) {
	f.Add([]byte(`{"a":"b\"c\\","d\u00e9":"\\u","e":"\\\\\"","":" "}`))
	f.Add([]byte(strings.Repeat(`"\\\"`, 50)))
	f.Fuzz(func(t *testing.T, text []byte) { checkQuoted(t, text) })
}

// The processor's own instructions mark what plain Go marks, and both mark what
// is there.
func TestMark(t *testing.T) {
	const telling = "\"\\u\xa2\xdc\x21\x23\x5b\x5d\x74\x76\x00\x80\xff"
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		var b [block]byte
		var want marks
		for i := range b {
			b[i] = telling[random.IntN(len(telling))]
			switch b[i] {
			case '"':
				want.quotes |= 1 << i
			case '\\':
				want.slashes |= 1 << i
			case 'u':
				want.us |= 1 << i
			}
		}
		var fast, plain marks
		mark(&b, &fast)
		markPlain(&b, &plain)
		if fast != want || plain != want {
			t.Fatalf("%q: %x, in plain Go %x, want %x", b, fast, plain, want)
		}
	}
}
