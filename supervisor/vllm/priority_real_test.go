//go:build vllm

package vllm

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

// TestRealEnginePriority queues a cold turn and then a hot one behind a long
// answer on an engine that runs one request at a time: with warden's scheduling
// policy the hot one goes first, with vLLM's own the order of arrival counts and
// the header changes nothing.
func TestRealEnginePriority(t *testing.T) {
	// So many steps lie between the ends of two answers: with one, the API server
	// may send both in the same moment.
	const answer = 50
	for name, tc := range map[string]struct {
		settings [][]string
		order    string
	}{
		"priority": {[][]string{{"--scheduling-policy", "priority"}}, "hot cold"},
		"fcfs":     {nil, "cold hot"},
	} {
		t.Run(name, func(t *testing.T) {
			e := New(realEngine(t).Install(), Options{Settings: tc.settings})
			s := tinySpec(t)
			s.MaxNumSeqs = 1
			p := start(t, e, s)
			p.waitHealthy()
			ended := make(chan string)
			send := func(who, priority string, tokens int) {
				go func() {
					if err := p.complete(priority, tokens); err != nil {
						who += ": " + err.Error()
					}
					ended <- who
				}()
			}
			send("long", "0", 1000)
			p.waitStats(e, "running", 1, 0)
			send("cold", "60", answer)
			p.waitStats(e, "cold waits", 1, 1)
			send("hot", "2", answer)
			p.waitStats(e, "hot waits", 1, 2)
			if first := <-ended; first != "long" {
				t.Fatalf("%s ended before the answer that it waits for", first)
			}
			if got := strings.Join([]string{<-ended, <-ended}, " "); got != tc.order {
				t.Errorf("order %q, want %q", got, tc.order)
			}
		})
	}
}

// complete sends one completion with that priority and reads its answer.
func (p *process) complete(priority string, tokens int) error {
	raw, err := json.Marshal(map[string]any{
		"model": tiny.Name, "prompt": "x", "max_tokens": tokens, "ignore_eos": true, "allowed_token_ids": []int{'y'},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, "http://engine/v1/completions", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Vllm-Priority", priority)
	res, err := p.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// waitStats polls the engine's metrics until so many requests run and wait.
func (p *process) waitStats(e *Engine, what string, running, waiting int) {
	p.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(time.Minute)
	for {
		select {
		case <-limit:
			p.t.Fatalf("%s: not seen in the engine's metrics", what)
		case <-tick.C:
			if s := p.stats(e); s.Running == running && s.Waiting == waiting {
				return
			}
		}
	}
}
