package scan

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
)

// What is recognised must be recognised by the next version too: roots are kept
// over a restart, and a warden that is replaced hands its conversations on. Each
// sum is over root, chain and ends of all golden samples and a long body.
func TestHashesStay(t *testing.T) {
	want := map[string]string{
		"/v1/messages":         "babb680e539249f2",
		"/v1/chat/completions": "29295de652cba6d3",
		"/v1/responses":        "8e4075dda7617003",
		"/v1/completions":      "bfde8bd8a6a27551",
		"/v1/embeddings":       "29295de652cba6d3",
		"/tokenize":            "29295de652cba6d3",
	}
	for _, path := range fuzzPaths {
		var sum xxhash.Digest
		for _, body := range append(goldenBodies(t), agentBody(100_000)) {
			b := Scan(path, body)
			var all []byte
			for i, v := range b.Chain {
				all = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(all, v), uint64(b.Ends[i]))
			}
			_, _ = sum.Write(binary.LittleEndian.AppendUint64(all, b.Root))
		}
		if got := fmt.Sprintf("%016x", sum.Sum64()); got != want[path] {
			t.Errorf("%s: %s, want %s", path, got, want[path])
		}
	}
}

// However a text is escaped, its hash is the same.
func FuzzHashText(f *testing.F) {
	f.Add("plain")
	f.Add("a\nb\t\"c\" \\d / \u00e9 😀 \x1b[0m \x7f \u2028")
	f.Add(strings.Repeat(`\u`, 3000))
	f.Add(strings.Repeat("é\n\\", 3000))
	f.Fuzz(func(t *testing.T, text string) {
		text = strings.ToValidUTF8(text, "?")
		var h hasher
		plain := quote(text)
		want, size := h.hashText(quotedOf(t, plain))
		// Control characters without a short escape count as their escapes.
		control := strings.Count(plain, `\u00`)
		if size > len(text)+6*control || size < len(text)/2 || size == 0 && text != "" {
			t.Fatalf("size %d of %d", size, len(text))
		}
		var escaped strings.Builder
		for _, r := range text {
			switch {
			case r > 0xffff:
				r -= 0x10000
				fmt.Fprintf(&escaped, `\u%04x\u%04X`, 0xd800+r>>10, 0xdc00+r&0x3ff)
			default:
				fmt.Fprintf(&escaped, `\u%04X`, r)
			}
		}
		if got, _ := h.hashText(quotedOf(t, `"`+escaped.String()+`"`)); got != want {
			t.Fatalf("%q has two hashes", text)
		}
		if got := unescape(nil, []byte(escaped.String())); string(got) != text {
			t.Fatalf("%q decodes to %q", escaped.String(), got)
		}
	})
}
