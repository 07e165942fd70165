package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

const hi = `{"stream":true,"messages":[{"role":"user","content":"[[sim:words 20]]"}]}`

func TestHangBehindHealthyHealth(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		h.fault(map[string]string{"stall": "engine"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		resp, err := h.do(ctx, "POST", "/v1/chat/completions", hi)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		time.Sleep(time.Minute) // virtual
		if status, _ := h.call("GET", "/health", ""); status != http.StatusOK {
			t.Errorf("/health says %d", status)
		}
		_, metrics := h.call("GET", "/metrics", "")
		for _, line := range []string{`vllm:num_requests_running{engine="0",model_name="m"} 0.0`, `vllm:num_requests_waiting{engine="0",model_name="m"} 0.0`, `vllm:iteration_tokens_total_count{engine="0",model_name="m"} 0.0`} {
			if !strings.Contains(metrics, line) {
				t.Errorf("a hanging engine's metrics lack %s", line)
			}
		}
		h.fault(map[string]string{"stall": "none"})
		if events, err := readEvents(resp.Body); err != nil || events[len(events)-1].data != "[DONE]" {
			t.Errorf("after the stall the stream must go on: %v", err)
		}
	})
}

func TestStallOfEverything(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		h.fault(map[string]string{"stall": "all"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := h.do(ctx, "GET", "/health", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("/health of a stalled server: %v", err)
		}
		if status, body := h.call("POST", "/sim/fault", `{"stall":null}`); status != http.StatusOK || body != "{}" {
			t.Errorf("fault control must always answer: %d %s", status, body)
		}
		if status, _ := h.call("GET", "/health", ""); status != http.StatusOK {
			t.Errorf("afterwards /health says %d", status)
		}
	})
}

func TestSlowHealth(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		if status, body := h.call("POST", "/sim/fault", `{"health-delay":"3s","log-flood":5}`); status != http.StatusOK || body != `{"health-delay":"3s","log-flood":"5"}` {
			t.Fatalf("%d %s", status, body)
		}
		start := time.Now()
		h.call("GET", "/health", "")
		if got := time.Since(start); got != 3*time.Second {
			t.Errorf("/health took %v", got)
		}
		h.fault(map[string]string{"health-delay": "", "stall": "health"})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := h.do(ctx, "GET", "/health", ""); err == nil {
			t.Error("a stalled /health answered")
		}
		if status, _ := h.call("GET", "/version", ""); status != http.StatusOK {
			t.Errorf("the rest must answer: %d", status)
		}
	})
}

func TestSlowEngine(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		h.fault(map[string]string{"slow": "3"})
		start := time.Now()
		h.post("/v1/completions", `{"prompt":"x","max_tokens":2,"ignore_eos":true}`)
		if got, want := time.Since(start), 66*time.Millisecond; got != want {
			t.Errorf("two steps of 11 ms took %v, want %v", got, want)
		}
	})
}

func TestErrorRates(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		h.fault(map[string]string{"error": "429:0.3,503:0.3"})
		seen := make(map[int]int)
		for range 200 {
			status, _ := h.call("POST", "/v1/completions", `{"prompt":"x","max_tokens":1}`)
			seen[status]++
		}
		// 30 %, 21 % and 49 % of 200 are expected; the bounds are four standard
		// deviations away.
		if seen[429] < 34 || seen[429] > 86 || seen[503] < 19 || seen[503] > 65 || seen[200]+seen[429]+seen[503] != 200 {
			t.Errorf("statuses %v", seen)
		}
	})
}

func TestBrokenStreams(t *testing.T) {
	apis := map[string]string{
		"/v1/chat/completions": `{"stream":true,"messages":[{"role":"user","content":"MARK"}]}`,
		"/v1/completions":      `{"stream":true,"max_tokens":50,"prompt":"MARK"}`,
		"/v1/messages":         `{"model":"m","stream":true,"max_tokens":50,"messages":[{"role":"user","content":"MARK"}]}`,
		"/v1/responses":        `{"stream":true,"input":"MARK"}`,
	}
	complete := func(ev sseEvent) bool {
		return ev.data == "[DONE]" || ev.name == "message_stop" || ev.name == "response.completed"
	}
	for path, body := range apis {
		for _, kind := range []string{"close", "reset", "truncate", "stream-error"} {
			t.Run(path+" "+kind, func(t *testing.T) {
				bubble(t, slow(), func(t *testing.T, h *harness) {
					events, err := h.stream(path, strings.ReplaceAll(body, "MARK", "[[sim:"+kind+" 4]] [[sim:words 9]]"))
					var last sseEvent
					if len(events) > 0 {
						last = events[len(events)-1]
					}
					switch kind {
					case "close", "reset":
						if !errors.Is(err, io.ErrUnexpectedEOF) || len(events) != 4 {
							t.Errorf("%d events, then %v; want 4 and an unexpected end", len(events), err)
						}
					case "truncate":
						if err != nil || len(events) != 4 || complete(last) {
							t.Errorf("%d events, the last %v, then %v; want 4 and a proper HTTP end", len(events), last, err)
						}
					case "stream-error":
						if err != nil || !strings.Contains(events[4].data, `"error"`) || strings.Contains(last.name, "stop") {
							t.Errorf("events %v, then %v; want an error event as the fifth", events, err)
						}
					}
				})
			})
		}
	}
}

func TestBrokenAnswers(t *testing.T) {
	for _, kind := range []string{"close", "reset", "truncate"} {
		bubble(t, slow(), func(t *testing.T, h *harness) {
			h.fault(map[string]string{"cut": kind + ":0"})
			resp, err := h.do(t.Context(), "POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if raw, err := io.ReadAll(resp.Body); err == nil || len(raw) == 0 {
				t.Errorf("%s: read %d bytes, then %v; want a part of the answer and an error", kind, len(raw), err)
			}
		})
	}
}

func TestDeathOfTheEngine(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		type result struct {
			events []sseEvent
			err    error
		}
		streams := make(chan result)
		for path, body := range map[string]string{"/v1/chat/completions": hi, "/v1/messages": `{"model":"m","max_tokens":900,"ignore_eos":true,` + hi[1:]} {
			go func() {
				events, err := h.stream(path, body)
				streams <- result{events, err}
			}()
		}
		time.Sleep(50 * time.Millisecond) // virtual: both have begun
		h.server.Kill()
		for range 2 {
			r := <-streams
			if r.err != nil {
				t.Fatal(r.err)
			}
			all := ""
			for _, ev := range r.events {
				all += ev.name + " " + ev.data + "\n"
			}
			if !strings.Contains(all, "EngineCore encountered an issue") || strings.Contains(all, "message_stop") {
				t.Errorf("the stream must end with the engine's error:\n%s", all)
			}
		}
		if status, _ := h.call("GET", "/health", ""); status != http.StatusServiceUnavailable {
			t.Errorf("/health says %d", status)
		}
		status, body := h.call("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"hi"}]}`)
		if status != http.StatusInternalServerError || !strings.Contains(body, "EngineCore encountered an issue") {
			t.Errorf("a new request: %d %s", status, body)
		}
	})
}

func TestDrain(t *testing.T) {
	bubble(t, slow(), func(t *testing.T, h *harness) {
		resp, err := h.do(t.Context(), "POST", "/v1/completions", `{"prompt":"x","max_tokens":100,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		ended := make(chan error)
		go func() {
			_, err := readEvents(resp.Body)
			ended <- err
		}()
		time.Sleep(100 * time.Millisecond) // virtual
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		h.server.Drain(short)
		if short.Err() == nil {
			t.Error("the drain ended before its request")
		}
		if status, _ := h.call("POST", "/v1/completions", `{"prompt":"x"}`); status != http.StatusInternalServerError {
			t.Errorf("a new request while draining: %d", status)
		}
		if status, _ := h.call("GET", "/health", ""); status != http.StatusOK {
			t.Errorf("/health while draining says %d", status)
		}
		h.server.Drain(t.Context())
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
