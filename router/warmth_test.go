package router

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lm-warden/warden/router/deployment"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/mends"
)

// long is about 10,000 tokens of text.
var long = strings.Repeat("word ", 8_000)

// measuredAs lets every engine answer /v1/messages with these prompt tokens.
func (f *fixture) measuredAs(prompt, cached int) {
	f.every(func(*engine) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"content":[{"type":"text","text":"yes"}],"stop_reason":"end_turn","usage":{"input_tokens":%d,"output_tokens":3,"cache_read_input_tokens":%d}}`,
				prompt-cached, cached)
		}
	})
}

// A conversation whose system turns are hoisted reads its history anew on every
// turn: that is said once, with the setting that mends it; of the client as a
// whole when a second one breaks; and never of further ones.
func TestBrokenPrefixesAreExplained(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, model: Model{Alias: testModel, SystemTurns: mends.SystemTurnsKeep}})
		talk := func(session string) {
			turns := []string{session + long}
			f.measuredAs(10_000, 0)
			f.claude(session, history(turns...))
			for i := range 3 {
				turns = append(turns, "yes", "go on", fmt.Sprintf("!Tokens left: %d", 900-i))
				f.measuredAs(10_100+100*i, 160)
				f.claude(session, history(turns...))
			}
		}
		talk("s1")
		soon()
		breaks := func() (found []string) {
			for _, e := range f.noted(&f.events) {
				if strings.HasPrefix(e, "prefix_break") {
					found = append(found, e)
				}
			}
			return found
		}
		s := f.router.Snapshot(1).Models[0].Sessions[0]
		want := "prefix_break r0: session " + s.ID + " found 160 of 10000 tokens of its history cached: 1 new system message"
		if got := breaks(); len(got) != 1 || !strings.HasPrefix(got[0], want) || !strings.Contains(got[0], "system_turns: fold") {
			t.Errorf("events: %q, want one like %q", got, want)
		}
		if s.Break == nil || s.Break.Cause != identity.CauseSystemTurns || s.Break.Cached != 160 || s.Break.Fix == "" {
			t.Errorf("session: %+v", s.Break)
		}
		talk("s2")
		talk("s3")
		soon()
		if got := breaks(); len(got) != 2 || !strings.Contains(got[1], "conversations of claude-code break one after the other") {
			t.Errorf("events of three conversations: %q", got)
		}
		if m := f.router.Snapshot(1).Models[0]; m.Breaks[identity.CauseSystemTurns] != 3 {
			t.Errorf("breaks counted: %v", m.Breaks)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(f.router)
		if got := breaksCounted(t, registry); len(got) != 1 || got[string(identity.CauseSystemTurns)] != 3 {
			t.Errorf("breaks in the metrics: %v", got)
		}
	})
}

// breaksCounted is warden_prefix_breaks_total by cause, without zeros.
func breaksCounted(t *testing.T, g prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, f := range families {
		for _, m := range f.Metric {
			if n := m.GetCounter().GetValue(); f.GetName() == "warden_prefix_breaks_total" && n > 0 {
				counted[m.Label[0].GetValue()] = n // labels are sorted: cause, model
			}
		}
	}
	return counted
}

// Neither a warm conversation, nor a restart, nor a cache that was too small
// for all of them is a broken prefix.
func TestColdIsNotBroken(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 1, model: Model{Alias: testModel, SystemTurns: mends.SystemTurnsKeep}})
		turn := func(session string, more ...string) {
			f.claude(session, history(append([]string{session + long}, more...)...))
		}
		f.measuredAs(10_000, 0)
		turn("warm")
		f.measuredAs(10_100, 9_984)
		turn("warm", "yes", "go", "!x")
		restarted := Replica{ID: "r0", Generation: 2, Address: "mem:r0", Accepting: true, MaxNumSeqs: 32, KVCapacityTokens: 40_000}
		if err := f.router.SetReplicas(testModel, []Replica{restarted}); err != nil {
			t.Fatal(err)
		}
		f.measuredAs(10_200, 0)
		turn("warm", "yes", "go", "!x", "ok", "more", "!y")
		f.measuredAs(10_000, 0)
		for i := range 6 { // 60,000 tokens: more than the cache holds
			turn(fmt.Sprint("s", i))
		}
		f.measuredAs(10_100, 16)
		turn("s0", "yes", "go", "!x")
		soon()
		for _, e := range f.noted(&f.events) {
			if strings.HasPrefix(e, "prefix_break") {
				t.Error(e)
			}
		}
	})
}

func TestSessionsShowWhereAndWhy(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.measuredAs(1_000, 0)
		f.claude("s", history("hi"))
		f.measuredAs(1_200, 900)
		f.post("/v1/messages", history("task"), "User-Agent", claudeAgent, "X-Claude-Code-Session-Id", "s",
			"X-Claude-Code-Agent-Id", "a0123456789abcdef")
		sessions := f.router.Snapshot(5).Models[0].Sessions
		if len(sessions) != 2 {
			t.Fatalf("%d sessions", len(sessions))
		}
		byClass := map[string]SessionSnapshot{}
		for _, s := range sessions {
			byClass[s.Class] = s
		}
		root, agent := byClass["main"], byClass["subagent"]
		if root.Parent != "" || agent.Parent != root.ID || agent.ID == root.ID || root.Client != "claude-code" {
			t.Errorf("parents: %+v\n%+v", root, agent)
		}
		if agent.LastPrompt != 1_200 || agent.LastCached != 900 || agent.CachedShare != 0.75 || agent.Turns != 1 ||
			agent.Tokens != 1_203 || agent.Reason == "" || agent.Home == "" || agent.Break != nil {
			t.Errorf("sub-agent: %+v", agent)
		}
		if root.LastPrompt != 1_000 || root.LastCached != 0 {
			t.Errorf("main: %+v", root)
		}
	})
}

// Ids in events are those of the list of sessions.
func TestOneFormOfSessionIDs(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 2})
		f.chat("s")
		id := f.router.Snapshot(1).Models[0].Sessions[0].ID
		if err := f.router.SetReplicas(testModel, []Replica{{ID: "r1", Generation: 1, Address: "mem:r1", Accepting: true}}); err != nil {
			t.Fatal(err)
		}
		f.chat("s")
		if got := f.noted(&f.events); len(got) != 1 || got[0] != "failover r1: session "+id+" -> r1" {
			t.Errorf("events %q, the session's id is %q", got, id)
		}
	})
}

// A client that vanished without closing sends its request again when its
// patience ends: the first copy ends, the second is served.
func TestResentRequestReplacesTheEarlierOne(t *testing.T) {
	for name, place := range map[string]struct {
		stream bool
		answer func(http.ResponseWriter)
	}{
		"unstreamed":                    {false, func(http.ResponseWriter) {}},
		"stream before its first token": {true, func(w http.ResponseWriter) { stream(w) }},
		"stream that was half sent":     {true, func(w http.ResponseWriter) { stream(w).send(chunk("half")) }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 2})
				ended := make(chan time.Time, 1)
				hang := func(w http.ResponseWriter, req *http.Request) {
					place.answer(w)
					<-req.Context().Done()
					ended <- time.Now()
				}
				f.every(func(*engine) http.HandlerFunc { return hang })
				body := chatBody("the same")
				if place.stream {
					body = streamBody("the same")
				}
				first := make(chan reply, 1)
				go func() {
					first <- f.do(f.request(t.Context(), "POST", "/v1/chat/completions", body, "X-Session-Id", "s"))
				}()
				elapse(300 * time.Second)
				f.every(func(*engine) http.HandlerFunc { return sayHello })
				again := time.Now()
				if r := f.post("/v1/chat/completions", body, "X-Session-Id", "s"); r.body != helloBody {
					t.Errorf("the second copy: %d %s %v", r.status, r.body, r.err)
				}
				if at := <-ended; at.Sub(again) > 100*time.Millisecond {
					t.Errorf("the first copy ran on for %v", at.Sub(again))
				}
				r := <-first
				if name == "stream that was half sent" {
					if r.err == nil || strings.Contains(r.body, "[DONE]") {
						t.Errorf("the first copy looks complete: %q %v", r.body, r.err)
					}
				} else if r.status != 429 || r.header.Get("Retry-After") != "60" || !strings.Contains(r.body, "sent again") {
					t.Errorf("the first copy: %d %v %s", r.status, r.header, r.body)
				}
				soon()
				if m := f.router.Snapshot(0).Models[0]; m.Resent != 1 || m.Errors != 0 {
					t.Errorf("resent %d, errors %d", m.Resent, m.Errors)
				}
				if got := f.noted(&f.failures); len(got) != 0 {
					t.Errorf("failures reported: %v", got)
				}
			})
		})
	}
}

// A copy that waits for a place is ended too, so that copies do not queue.
func TestResentWhileWaiting(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{})
		done := make(chan reply, 2)
		send := func() {
			done <- f.do(f.request(t.Context(), "POST", "/v1/chat/completions", chatBody("x"), "X-Session-Id", "s"))
		}
		go send()
		elapse(deployment.ResendAfter)
		go send()
		soon()
		if n := len(f.router.Snapshot(0).Models[0].Queue); n != 1 {
			t.Errorf("%d copies wait", n)
		}
		if r := <-done; r.status != 429 {
			t.Errorf("the first copy: %d", r.status)
		}
		elapse(240 * time.Second)
		<-done
	})
}

// Requests that are alike for another reason all run: sub-agents on one task,
// a client that asks twice, another body, clients without ids.
func TestSiblingsAreNoResends(t *testing.T) {
	for _, c := range []struct {
		name          string
		copies        int // of the first
		after         time.Duration
		first, second []string // headers
		body          string   // of the second
	}{
		{"within a burst", 1, deployment.ResendAfter - time.Second, []string{"X-Session-Id", "s"}, []string{"X-Session-Id", "s"}, chatBody("x")},
		{"other conversation", 1, 300 * time.Second, []string{"X-Session-Id", "s"}, []string{"X-Session-Id", "t"}, chatBody("x")},
		{"other parameters", 1, 300 * time.Second, []string{"X-Session-Id", "s"}, []string{"X-Session-Id", "s"}, strings.Replace(chatBody("x"), "{", `{"seed":1,`, 1)},
		{"one of many", 3, 300 * time.Second, []string{"X-Session-Id", "s"}, []string{"X-Session-Id", "s"}, chatBody("x")},
		{"no id", 1, 300 * time.Second, nil, nil, chatBody("x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				f := newFixture(t, setup{engines: 2})
				release := make(chan struct{})
				f.every(func(*engine) http.HandlerFunc {
					return func(w http.ResponseWriter, req *http.Request) {
						select {
						case <-release:
							sayHello(w, req)
						case <-req.Context().Done():
						}
					}
				})
				done := make(chan reply, c.copies+1)
				for range c.copies {
					go func() {
						done <- f.do(f.request(t.Context(), "POST", "/v1/chat/completions", chatBody("x"), c.first...))
					}()
				}
				elapse(c.after)
				go func() {
					done <- f.do(f.request(t.Context(), "POST", "/v1/chat/completions", c.body, c.second...))
				}()
				soon()
				close(release)
				for range c.copies + 1 {
					if r := <-done; r.status != 200 {
						t.Errorf("%d %s %v", r.status, r.body, r.err)
					}
				}
			})
		})
	}
}

// Golden sample 28 over HTTP: state that one process holds is reached there or
// not at all.
func TestStatePins(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		f := newFixture(t, setup{engines: 4, options: Options{Keys: someKeys("alpha", "beta")}})
		f.every(func(e *engine) http.HandlerFunc {
			return func(w http.ResponseWriter, req *http.Request) {
				answer := fmt.Sprintf(`{"id":"resp_%s","status":"completed","conversation":{"id":"conv_%s"},"output":[],"usage":{"input_tokens":10,"output_tokens":2}}`, e.id, e.id)
				got := e.requests()
				if strings.Contains(got[len(got)-1].body, `"stream":true`) {
					stream(w).send("event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + answer + "}\n\n")
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, answer)
			}
		})
		ask := func(key, more string) reply {
			return f.post("/v1/responses", `{"model":"`+testModel+`","input":"go on"`+more+`}`, "Authorization", "Bearer "+key)
		}
		for _, streamed := range []string{"", `,"stream":true`} {
			home := ask("alpha", streamed).header.Get("X-Warden-Replica")
			for _, pin := range []string{`,"previous_response_id":"resp_%s"`, `,"conversation":"conv_%s"`, `,"conversation":{"id":"conv_%s"}`} {
				pin = fmt.Sprintf(pin, home)
				for range 3 {
					r := ask("alpha", pin+streamed)
					if r.status != 200 || r.header.Get("X-Warden-Replica") != home || r.header.Get("X-Warden-Reason") != "pinned" {
						t.Errorf("%s: %d on %s, want %s: %s", pin, r.status, r.header.Get("X-Warden-Replica"), home, r.body)
					}
				}
				if r := ask("beta", pin); r.status != 404 {
					t.Errorf("%s with another key: %d", pin, r.status)
				}
			}
		}
		for _, pin := range []string{`,"previous_response_id":"resp_x"`, `,"conversation":"conv_x"`, `,"conversation":{"id":"conv_x"}`} {
			r := ask("alpha", pin)
			v, ok := decodeJSON(t, r.body)["error"].(map[string]any)
			if r.status != 404 || !ok || v["code"] != "previous_response_not_found" || v["type"] != "invalid_request_error" {
				t.Errorf("%s: %d %s", pin, r.status, r.body)
			}
		}
		// The Responses API alone has such state.
		r := f.post("/v1/chat/completions", strings.Replace(chatBody("x"), "{", `{"previous_response_id":"resp_x",`, 1), "Authorization", "Bearer alpha")
		if r.status != 200 {
			t.Errorf("chat: %d", r.status)
		}
	})
}
