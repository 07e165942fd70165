package identity

import (
	"encoding/binary"
	"fmt"
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
