package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/lm-warden/warden/supervisor/control"
)

// A conversation that the KV cache has lost is loaded from the tier in host
// memory: its tokens count as cached, and the tier's hits are shown. Engines are
// simulated; vLLM's CPU build has no tier.
func TestLostPrefixComesFromHostMemory(t *testing.T) {
	// 12,000 KV tokens hold one and a half of these conversations, the tier all.
	const blocks, words = 750, 6000
	w := start(t, "--dp", "1", "--kv-offload", "4", "--", "--num-gpu-blocks-override", fmt.Sprint(blocks), "--sim-profile", "instant")
	turn := func(session string) (prompt, cached int64) {
		t.Helper()
		a := w.chat(session, strings.Repeat(session+" ", words), false, 4)
		if a.code != 200 || a.err != nil {
			t.Fatalf("%s: %d %s %v", session, a.code, a.body, a.err)
		}
		usage := gjson.Get(a.body, "usage")
		return usage.Get("prompt_tokens").Int(), usage.Get("prompt_tokens_details.cached_tokens").Int()
	}
	for _, session := range []string{"one", "two", "three"} {
		if prompt, cached := turn(session); cached > 0 || prompt < words {
			t.Fatalf("%s: %d tokens, %d cached", session, prompt, cached)
		}
	}
	prompt, cached := turn("one")
	if cached < prompt*9/10 {
		t.Errorf("the lost conversation has %d tokens, %d of them from host memory", prompt, cached)
	}
	s := w.waitFor(func(s control.Status) bool {
		e := s.Replicas[0].Engine
		return e != nil && e.HostTier != nil && e.HostTier.HitTokens > 0
	})
	tier := s.Replicas[0].Engine.HostTier
	if int64(tier.HitTokens) != cached || tier.CapacityTokens != 29_127 {
		t.Errorf("the tier says %+v, the answer %d", *tier, cached)
	}
	t.Logf("one conversation of %d tokens, lost and loaded: %d cached, tier %+v", prompt, cached, *tier)
}
