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
)

// model answers every prompt with as many words as asked for, and says how long
// it was: 3 characters a token and some for the template.
type model struct {
	mu      sync.Mutex
	prompts []prompt
	hold    func(p prompt, ctx context.Context) // before the answer
}

type prompt struct {
	session, path string
	messages      []message
	tokens        int
}

const template = 9

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Messages  []message `json:"messages"`
		System    string    `json:"system"`
		MaxTokens int       `json:"max_tokens"`
		IgnoreEOS bool      `json:"ignore_eos"`
	}
	content, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(content, &body); err != nil || !body.IgnoreEOS {
		http.Error(w, "not understood", http.StatusBadRequest)
		return
	}
	p := prompt{session: r.Header.Get("X-Session-ID"), path: r.URL.Path, messages: body.Messages}
	chars := len(body.System)
	for _, one := range body.Messages {
		chars += len(one.Content)
	}
	p.tokens = chars/3 + template
	m.mu.Lock()
	m.prompts = append(m.prompts, p)
	m.mu.Unlock()
	if m.hold != nil {
		m.hold(p, r.Context())
	}
	if p.path == "/v1/messages" {
		fmt.Fprintf(w, "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":%q}}\n\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":%d,\"cache_read_input_tokens\":0,\"output_tokens\":%d}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
			strings.Repeat("yy ", body.MaxTokens), p.tokens, body.MaxTokens)
		return
	}
	fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n",
		strings.Repeat("yy ", body.MaxTokens), p.tokens, body.MaxTokens)
}

func replay(t *testing.T, m *model, talks ...Talk) (Measurement, Drift) {
	t.Helper()
	server := httptest.NewServer(m)
	defer server.Close()
	measured, drift, err := Replay(t.Context(), Options{URL: server.URL, Model: "m", Seed: 1, CharsPerToken: 4}, talks, 1000)
	if err != nil {
		t.Fatal(err)
	}
	return measured, drift
}

func near(got, want, tolerance int) bool { return got >= want-tolerance && got <= want+tolerance }

// Prompts grow as recorded although a token is shorter than was believed: what
// is missing is made up with the next turn.
func TestPromptsGrowAsRecorded(t *testing.T) {
	for _, api := range []string{"chat", "messages"} {
		var m model
		steps := []Step{{Prompt: 1000, Output: 50}, {At: time.Second, Prompt: 1400, Output: 30}, {At: 2 * time.Second, Prompt: 2000, Output: 10}}
		measured, drift := replay(t, &m, Talk{Name: "a", Shared: 300, API: api, Steps: steps})
		report, err := measured.Report()
		if err != nil {
			t.Fatal(err)
		}
		if report.TurnsFinished != 3 || drift.Sent != 3 || drift.OutputReplayed != 90 || drift.OutputRecorded != 90 {
			t.Errorf("%s: %+v, %+v", api, report, drift)
		}
		for i, p := range m.prompts[1:] {
			if !near(p.tokens, steps[i+1].Prompt, 60) {
				t.Errorf("%s: prompt %d has %d tokens, recorded were %d", api, i+2, p.tokens, steps[i+1].Prompt)
			}
			before := m.prompts[i].messages
			for j := range before {
				if p.messages[j] != before[j] {
					t.Errorf("%s: prompt %d does not begin with the one before", api, i+2)
				}
			}
			if answer := p.messages[len(before)]; answer.Role != "assistant" || !strings.HasPrefix(answer.Content, "yy yy") {
				t.Errorf("%s: behind the prompt before comes %+v, not its answer", api, answer)
			}
		}
	}
}

func TestTalksOfAGroupBeginAlike(t *testing.T) {
	var m model
	one := []Step{{Prompt: 1000, Output: 1}}
	replay(t, &m, Talk{Name: "a", Group: "g", Shared: 300, API: "chat", Steps: one}, Talk{Name: "b", Group: "g", Shared: 400, API: "chat", Steps: one},
		Talk{Name: "c", Group: "other", Shared: 300, API: "chat", Steps: one}, Talk{API: "chat", Steps: one})
	systems := map[string]string{}
	users := map[string]bool{}
	ids := map[string]bool{}
	for _, p := range m.prompts {
		ids[p.session] = true
		users[p.messages[len(p.messages)-1].Content] = true
		if len(p.messages) == 2 {
			systems[fmt.Sprint(len(p.messages[0].Content)/100)] += p.messages[0].Content[:200] + "|"
		}
	}
	if len(users) != 4 || len(ids) != 4 || !ids[""] {
		t.Errorf("%d texts and %d ids of four talks, one without", len(users), len(ids))
	}
	long, short := strings.Split(systems["16"], "|"), strings.Split(systems["12"], "|")
	if len(long) != 2 || len(short) != 3 {
		t.Fatalf("system texts %v", systems)
	}
	if (short[0] == long[0]) == (short[1] == long[0]) {
		t.Error("want the beginning of one of the two short ones to be that of the long one")
	}
}

func TestAShorterPromptKeepsWhatWasCached(t *testing.T) {
	var m model
	replay(t, &m, Talk{Name: "a", Shared: 300, API: "chat", Steps: []Step{
		{Prompt: 1000, Output: 50}, {Prompt: 2000, Output: 50}, {Prompt: 900, Cached: 600, Output: 1}, {Prompt: 1000, Cached: 900, Output: 1}}})
	before, after := m.prompts[1].messages, m.prompts[2].messages
	if after[0] != before[0] || !near(m.prompts[2].tokens, 900, 60) {
		t.Errorf("%d tokens, want 900 that begin as before", m.prompts[2].tokens)
	}
	same := 0
	for same < len(after[1].Content) && same < len(before[1].Content) && after[1].Content[same] == before[1].Content[same] {
		same++
	}
	if !near((len(after[0].Content)+same)/3, 600, 60) {
		t.Errorf("%d tokens of the beginning were kept, want about 600", (len(after[0].Content)+same)/3)
	}
	for i := 1; i < len(after); i++ {
		if after[i].Role == after[i-1].Role {
			t.Errorf("message %d and the one before are both the %s's", i, after[i].Role)
		}
	}
}

// A turn waits for the one before it, unless it did not in the recording.
func TestOnlyRecordedOverlapsOverlap(t *testing.T) {
	for _, overlaps := range []bool{false, true} {
		var m model
		second := make(chan struct{})
		var once sync.Once
		m.hold = func(p prompt, ctx context.Context) {
			m.mu.Lock()
			n := len(m.prompts)
			m.mu.Unlock()
			if n == 2 {
				once.Do(func() { close(second) })
			}
			if overlaps && n == 1 {
				<-second // the first is not answered before the second has come
			}
		}
		_, drift := replay(t, &m, Talk{Name: "a", API: "chat", Steps: []Step{{Prompt: 100, Output: 1}, {Prompt: 200, Output: 1, Overlaps: overlaps}}})
		if drift.Sent != 2 || len(m.prompts) != 2 {
			t.Errorf("overlaps %v: %d requests", overlaps, len(m.prompts))
		}
		if got := len(m.prompts[1].messages); !overlaps && got != 3 || overlaps && got != 1 {
			t.Errorf("overlaps %v: the second prompt has %d messages", overlaps, got)
		}
	}
}

func TestClientsLeaveAgain(t *testing.T) {
	left := make(chan struct{})
	m := model{hold: func(_ prompt, ctx context.Context) {
		<-ctx.Done()
		close(left)
	}}
	measured, _ := replay(t, &m, Talk{Name: "a", API: "chat", Steps: []Step{{Prompt: 100, Output: 500, LeftAfter: 20 * time.Millisecond}}})
	<-left
	if report, err := measured.Report(); err != nil || report.TurnsCut != 1 || report.TurnsFailed != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}

func TestNothingToReplay(t *testing.T) {
	if _, _, err := Replay(t.Context(), Options{URL: "http://x"}, nil, 1); err == nil {
		t.Error("an empty recording is replayed")
	}
	if _, _, err := Replay(t.Context(), Options{URL: "http://x"}, []Talk{{}}, 0); err == nil {
		t.Error("speed 0 is accepted")
	}
}
