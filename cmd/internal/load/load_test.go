package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// upstream answers every turn in one of several ways and remembers the bodies.
type upstream struct {
	mu     sync.Mutex
	bodies []map[string]any
	answer func(w http.ResponseWriter, n int)
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	content, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(content, &body)
	u.mu.Lock()
	u.bodies = append(u.bodies, body)
	n := len(u.bodies)
	u.mu.Unlock()
	w.Header().Set("X-Warden-Replica", fmt.Sprintf("r%d", n%2))
	u.answer(w, n)
}

const chatStream = `data: {"choices":[{"delta":{"role":"assistant"}}]}

data: {"choices":[{"delta":{"content":"hello"}}]}

data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}

data: [DONE]

`

const messagesStream = `event: message_start
data: {"type":"message_start","message":{"usage":{"input_tokens":100}}}

event: content_block_delta
data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"hello"}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":40,"cache_read_input_tokens":60,"output_tokens":7}}

event: message_stop
data: {"type":"message_stop"}

`

const completionsStream = `data: {"choices":[{"text":"hello"}]}

data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":60}}}

data: [DONE]

`

const responsesStream = `event: response.created
data: {"type":"response.created","response":{"error":null,"usage":null}}

event: response.output_text.delta
data: {"type":"response.output_text.delta","delta":"hello"}

event: response.incomplete
data: {"type":"response.incomplete","response":{"error":null,"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":7}}}

`

// runTurns lets one session run until n turns were seen.
func runTurns(t *testing.T, api string, n int, answer func(http.ResponseWriter, int)) ([]Turn, *upstream) {
	t.Helper()
	u := &upstream{answer: answer}
	srv := httptest.NewServer(u)
	defer srv.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var turns []Turn
	_, err := Run(ctx, Options{
		URL: srv.URL, Model: "m", API: api, Sessions: 1, Seed: 7,
		Shape: Shape{System: 10, First: 20, Next: 5, Turns: 3, MaxOutput: 4},
		OnTurn: func(turn Turn) {
			turns = append(turns, turn)
			if len(turns) == n {
				cancel()
			}
		},
	})
	if err != nil && turns[0].Err == nil {
		t.Fatal(err)
	}
	return turns, u
}

func TestTurnsOfAllAPIs(t *testing.T) {
	for api, stream := range map[string]string{Chat: chatStream, Messages: messagesStream, Completions: completionsStream, Responses: responsesStream} {
		t.Run(api, func(t *testing.T) {
			turns, u := runTurns(t, api, 4, func(w http.ResponseWriter, _ int) { io.WriteString(w, stream) })
			for i, turn := range turns {
				if turn.Err != nil || turn.PromptTokens != 100 || turn.CachedTokens != 60 || turn.OutputTokens != 7 || turn.TTFT == 0 || turn.TTFB > turn.TTFT {
					t.Errorf("turn %d: %+v", i, turn)
				}
				if turn.Stayed {
					t.Errorf("turn %d: the replica alternates, yet it stayed", i)
				}
			}
			if turns[2].N != 3 || turns[3].N != 1 || turns[3].Session == turns[2].Session {
				t.Errorf("the fourth turn must begin a new session: %+v", turns[3])
			}
			if got, want := resent(u.bodies[2]), map[string]int{Chat: 6, Messages: 5, Responses: 5, Completions: 1}[api]; got != want {
				t.Errorf("turn 3 resends %d messages, want %d", got, want)
			}
		})
	}
}

// resent counts the messages of a body: user, assistant, user, assistant, user,
// and the system's where it is one; all in one text are one.
func resent(body map[string]any) int {
	for _, key := range []string{"messages", "input"} {
		if list, ok := body[key].([]any); ok {
			return len(list)
		}
	}
	if text, _ := body["prompt"].(string); strings.Count(text, "hello") == 2 {
		return 1
	}
	return 0
}

func TestCutStreamsAndErrorsAreFailures(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, int){
		"no end": func(w http.ResponseWriter, _ int) {
			io.WriteString(w, strings.TrimSuffix(chatStream, "data: [DONE]\n\n"))
		},
		"error in stream": func(w http.ResponseWriter, _ int) {
			io.WriteString(w, "data: {\"error\":{\"message\":\"died\"}}\n\ndata: [DONE]\n\n")
		},
		"error of a response": func(w http.ResponseWriter, _ int) {
			io.WriteString(w, "data: {\"type\":\"response.failed\",\"response\":{\"error\":{\"message\":\"died\"}}}\n\n")
		},
		"no end of a response": func(w http.ResponseWriter, _ int) {
			io.WriteString(w, strings.Replace(responsesStream, "response.incomplete", "response.in_progress", 2))
		},
		"status": func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			turns, _ := runTurns(t, "chat", 1, answer)
			if turns[0].Err == nil {
				t.Error("the turn counts as finished")
			}
		})
	}
}

func measured(sessions int, runs ...*recorder) Measurement {
	return Measurement{Sessions: sessions, runs: runs}
}

func TestReport(t *testing.T) {
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rec := &recorder{started: began, ended: began.Add(time.Minute)}
	rec.turn(Turn{N: 1, TTFB: time.Second, TTFT: 2 * time.Second, PromptTokens: 100, CachedTokens: 0, OutputTokens: 30, Replica: "r0"})
	rec.turn(Turn{N: 2, TTFB: 3 * time.Second, TTFT: 3 * time.Second, PromptTokens: 100, CachedTokens: 90, OutputTokens: 30, Replica: "r0", Stayed: true})
	rec.turn(Turn{N: 2, Err: fmt.Errorf("x")})
	rec.session(sessionEnd{took: 5 * time.Second, complete: true})
	rec.session(sessionEnd{took: 9 * time.Second})
	got, err := measured(2, rec).Report()
	if err != nil {
		t.Fatal(err)
	}
	if got.TurnsFinished != 2 || got.TurnsFailed != 1 || *got.CachedShare != 0.45 || *got.StayedShare != 1 || *got.TTFBp50 != 1 || *got.TTFBp95 != 3 || *got.SessionP50 != 5 {
		t.Errorf("%+v", got)
	}
	if got.OutputTokensPerMin != 60 || got.SessionsPerHour != 60 || got.Replicas != 1 {
		t.Errorf("%+v", got)
	}
}

func TestEveryTurnFailing(t *testing.T) {
	rec := &recorder{}
	rec.turn(Turn{Err: fmt.Errorf("refused")})
	if _, err := measured(1, rec).Report(); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("error %v", err)
	}
}
