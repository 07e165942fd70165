package link

import (
	"bytes"
	"io"
	"net/http/httputil"
	"strings"
	"testing"
)

// read passes raw through f in pieces of some size, and returns the body, what
// follows it, and whether it was complete.
func (f *framing) read(raw []byte, piece int) (body, rest []byte, err error) {
	for len(raw) > 0 && !f.over() {
		n := min(max(piece, 1), len(raw))
		now := bytes.Clone(raw[:n])
		raw = raw[n:]
		for len(now) > 0 && !f.over() {
			var data []byte
			if data, now, err = f.take(now); err != nil {
				return append(body, data...), nil, err
			}
			body = append(body, data...)
		}
		rest = now
	}
	return body, append(bytes.Clone(rest), raw...), nil
}

// All chunks that came together make one piece.
func TestChunksAreJoined(t *testing.T) {
	f := framing{kind: chunked}
	body, rest, err := f.take([]byte("3\r\nabc\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\nHTTP"))
	if string(body) != "abcdef" || string(rest) != "HTTP" || err != nil || !f.over() {
		t.Errorf("%q %q %v", body, rest, err)
	}
}

// Extensions and trailers cannot go on for ever; small chunks may.
func TestWaste(t *testing.T) {
	many := strings.Repeat("1\r\na\r\n", 100_000)
	for name, c := range map[string]struct {
		raw string
		ok  bool
	}{
		"one byte a chunk":    {many, true},
		"long extension":      {"1;" + strings.Repeat("x", 2*maxWaste) + "\r\n", false},
		"an extension a byte": {strings.Repeat("1;"+strings.Repeat("x", 100)+"\r\na\r\n", 1000), false},
		"long trailer":        {"0\r\n" + strings.Repeat("a: b\r\n", maxWaste), false},
		"zeros":               {strings.Repeat("0", 40) + "1\r\n", false},
		"larger than any":     {"ffffffffffffffff\r\n", false},
	} {
		f := framing{kind: chunked}
		if _, _, err := f.read([]byte(c.raw), 1000); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// However a chunked body is cut, it is read as net/http's own reader reads it;
// what that one refuses is refused or never complete.
func FuzzChunks(f *testing.F) {
	for _, raw := range []string{
		"5\r\nhello\r\n0\r\n\r\n", "5;a=b\r\nhello\r\n1 \r\n!\r\n0\r\nA: b\r\n\r\nHTTP/1.1", "5\nhello\n0\n\n", "\r\n", "0\r\n\r\n",
		"A\r\n0123456789\r\n000\r\n\r\n", "5\r\nhelloX\r\n0\r\n\r\n", "-1\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "3\r\nab",
	} {
		f.Add([]byte(raw), 1)
		f.Add([]byte(raw), 7)
	}
	f.Fuzz(func(t *testing.T, raw []byte, piece int) {
		framing := framing{kind: chunked}
		body, _, err := framing.read(raw, piece)
		in := bytes.NewReader(raw)
		want, wrong := io.ReadAll(httputil.NewChunkedReader(in))
		if err == nil && framing.over() && (wrong != nil || !bytes.Equal(body, want)) {
			t.Errorf("%q was read as %q; net/http: %q %v", raw, body, want, wrong)
		}
		// net/http's reader leaves the trailer to its caller.
		if wrong == nil && bytes.HasSuffix(raw, []byte("0\r\n\r\n")) && in.Len() == 2 && (err != nil || !framing.over()) {
			if !bytes.ContainsAny(raw, ";") && len(raw) < 4096 { // extensions: we are stricter
				t.Errorf("%q: %v, over %v; net/http read %q", raw, err, framing.over(), want)
			}
		}
	})
}
