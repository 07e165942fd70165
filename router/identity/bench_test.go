package identity

import (
	"net/http"
	"testing"

	"github.com/lm-warden/warden/router/identity/scan"
)

func BenchmarkIdentify(b *testing.B) {
	body := scan.Scan("/v1/messages", []byte(`{"model":"m","system":"s","tools":[{"name":"a"}],"messages":[{"role":"user","content":"fix the bug"}]}`))
	request := Request{Method: "POST", Path: "/v1/messages", PeerAddr: "127.0.0.1:4000", Header: http.Header{
		"User-Agent":               {"claude-cli/2.1.332 (external, cli)"},
		"X-Claude-Code-Session-Id": {"6f0c0000-0000-4000-8000-00000000beef"},
		"X-Claude-Code-Agent-Id":   {"a0123456789abcdef"},
		"Accept":                   {"application/json"}, "Content-Type": {"application/json"},
		"Authorization": {"Bearer x"}, "Anthropic-Version": {"2023-06-01"}, "Accept-Encoding": {"gzip, br"},
		"X-Stainless-Lang": {"js"}, "X-Stainless-Os": {"Linux"}, "X-Stainless-Retry-Count": {"0"}, "X-App": {"cli"},
	}}
	b.ReportAllocs()
	for b.Loop() {
		if Identify(request, body).Key.IsZero() {
			b.Fatal("no key")
		}
	}
}

// BenchmarkResolve runs under the router's lock. The Index is at its limits.
func BenchmarkResolve(b *testing.B) {
	x := NewIndex(Limits{})
	chain := func(seed uint64, n int) Identity {
		id := Identity{Class: Main, Root: 1, chain: make([]uint64, n)}
		id.outline = outline{shape: &shape{}, ends: make([]int, n)}
		for i := range id.chain {
			id.chain[i] = scan.Fold(seed, uint64(i))
		}
		return id
	}
	for i := range uint64(12_000) {
		x.Finish(x.Resolve(chain(i, 50), testStart), Done, testStart)
	}
	b.Run("next turn without id", func(b *testing.B) {
		turns := make([]Identity, 0, 200)
		for i := range 200 {
			turns = append(turns, chain(11_999, 51+2*i))
		}
		i := 0
		for b.Loop() {
			x.Finish(x.Resolve(turns[i%len(turns)], testStart), Done, testStart)
			i++
		}
	})
	b.Run("long unknown history", func(b *testing.B) {
		i := uint64(100_000)
		for b.Loop() {
			b.StopTimer()
			id := chain(i, 1000)
			i++
			b.StartTimer()
			x.Finish(x.Resolve(id, testStart), Done, testStart)
		}
	})
}
