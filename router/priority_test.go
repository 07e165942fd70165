package router

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func TestEnginePriority(t *testing.T) {
	for uncached, want := range map[int]int{-5: 0, 0: 0, 199: 0, 200: 1, 400: 2, 12_000: 60} {
		if got := EnginePriority(uncached); got != want {
			t.Errorf("%d tokens: %d, want %d", uncached, got, want)
		}
	}
}

// An engine that orders by priority is told what a turn costs: much for a long
// first turn, little for the next one, whose history is cached there. What the
// client sends is dropped; an engine that does not order is told nothing.
func TestPriorityHeader(t *testing.T) {
	for _, on := range []bool{true, false} {
		inBubble(t, func(t *testing.T) {
			f := newFixture(t, setup{engines: 1, model: Model{Alias: testModel, EnginePriority: on}})
			cached := 0
			f.engine("r0").set(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"choices":[{"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],
					"usage":{"prompt_tokens":10000,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%d}}}`, cached)
			})
			long := strings.Repeat("four ", 8_000) // 40,000 bytes: about 10,000 tokens
			for turn := range 2 {
				if r := f.post("/v1/chat/completions", chatBody(long), "X-Session-Id", "s", "X-Vllm-Priority", "-1"); r.status != http.StatusOK {
					t.Fatalf("turn %d: %d %s", turn, r.status, r.body)
				}
				cached = 9_984
			}
			var got []string
			for _, r := range f.engine("r0").requests() {
				got = append(got, strings.Join(r.header.Values(priorityHeader), ","))
			}
			if !on {
				if got[0] != "" || got[1] != "" {
					t.Errorf("priorities %q although the engine does not order by them", got)
				}
				return
			}
			first, err := strconv.Atoi(got[0])
			if second, err2 := strconv.Atoi(got[1]); err != nil || err2 != nil || first < 30 || first > 80 || second > 5 {
				t.Errorf("priorities %q, want about 50, then about 0", got)
			}
		})
	}
}
