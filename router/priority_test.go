package router

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestEnginePriority(t *testing.T) {
	const cold, hot = 12_000, 400
	for _, tt := range []struct {
		name          string
		first, second int
		order         int // of first against second
	}{
		{"equals in the order of arrival", EnginePriority(0, hot), EnginePriority(time.Second, hot), -1},
		{"a hot turn overtakes a cold one", EnginePriority(0, cold), EnginePriority(20*time.Second, hot), 1},
		{"but not one that came half a minute before", EnginePriority(0, cold), EnginePriority(30*time.Second, hot), -1},
		{"nothing to compute", EnginePriority(0, -5), 0, 0},
		{"before the beginning", EnginePriority(-time.Second, 0), 0, 0},
	} {
		if got := cmp.Compare(tt.first, tt.second); got != tt.order {
			t.Errorf("%s: %d against %d", tt.name, tt.first, tt.second)
		}
	}
}

// An engine that orders by priority is told when a turn came and what it costs:
// much for a long first turn, little for the next one, whose history is cached. What the
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
			if second, err2 := strconv.Atoi(got[1]); err != nil || err2 != nil || first < 150 || first > 400 || second > 50 {
				t.Errorf("priorities %q, want about 250, then hardly any", got)
			}
		})
	}
}
