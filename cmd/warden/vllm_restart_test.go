//go:build vllm

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// warden is killed ten times and upgraded once around a real vLLM: the engine
// stays the same process, and each turn finds its whole history in the cache.
func TestRealVLLMOutlivesWarden(t *testing.T) {
	flags := []string{"--device", "cpu", "--model", "tiny", "--dp", "1", "--vllm", realVLLM(t)}
	w := launch(t, newHome(t), append(flags, "--listen", "127.0.0.1:0")...)
	before := identities(w.waitAllReady(5 * time.Minute))
	flags = append(flags, "--listen", strings.TrimPrefix(w.url, "http://"))
	c := &exactTalk{w: w}
	c.turn(t)
	for round := range 10 {
		if err := w.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-w.done
		began := time.Now()
		w = launch(t, w.home, flags...)
		c.w = w
		c.turn(t)
		t.Logf("round %d: answered %s after the start", round, time.Since(began).Round(time.Millisecond))
	}
	if out, code := w.runCommand("upgrade"); code != 0 {
		t.Fatalf("upgrade: exit code %d\n%s", code, out)
	}
	c.turn(t)
	if diff := cmp.Diff(before, identities(w.waitAllReady(time.Minute))); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
}

// exactTalk is a conversation whose cached tokens can be foretold: see
// checkCachedTokens.
type exactTalk struct {
	w        *running
	history  []string
	computed int
}

func (c *exactTalk) turn(t *testing.T) {
	t.Helper()
	c.history = append(c.history, message("user", fmt.Sprintf("turn %d: %s", len(c.history), strings.Repeat("on and on. ", 8))))
	a := c.w.post("/v1/chat/completions", "outlives",
		fmt.Sprintf(`{"model":"tiny","max_tokens":40,"ignore_eos":true,"allowed_token_ids":[121],"messages":[%s]}`, strings.Join(c.history, ",")), nil)
	if a.code != 200 || a.err != nil {
		t.Fatalf("%d %v %s", a.code, a.err, a.body)
	}
	usage := gjson.Get(a.body, "usage")
	if cached, want := int(usage.Get("prompt_tokens_details.cached_tokens").Int()), c.computed/blockSize*blockSize; cached != want {
		t.Errorf("turn %d: vLLM reports %d cached tokens, want %d", len(c.history)/2+1, cached, want)
	}
	c.computed = int(usage.Get("prompt_tokens").Int()+usage.Get("completion_tokens").Int()) - 1
	c.history = append(c.history, message("assistant", gjson.Get(a.body, "choices.0.message.content").String()))
}
