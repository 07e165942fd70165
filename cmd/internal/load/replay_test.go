package load

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
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
		Messages     []message `json:"messages"`
		Input        []message `json:"input"`
		Prompt       string    `json:"prompt"`
		System       string    `json:"system"`
		Instructions string    `json:"instructions"`
		MaxTokens    int       `json:"max_tokens"`
		MaxOutput    int       `json:"max_output_tokens"`
		IgnoreEOS    bool      `json:"ignore_eos"`
	}
	content, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(content, &body); err != nil || !body.IgnoreEOS {
		http.Error(w, "not understood", http.StatusBadRequest)
		return
	}
	p := prompt{session: r.Header.Get("X-Session-ID"), path: r.URL.Path, messages: append(body.Messages, body.Input...)}
	if body.Prompt != "" {
		p.messages = []message{{Content: body.Prompt}}
	}
	chars, output := len(body.System+body.Instructions), max(body.MaxTokens, body.MaxOutput)
	for _, one := range p.messages {
		chars += len(one.Content)
	}
	p.tokens = chars/3 + template
	m.mu.Lock()
	m.prompts = append(m.prompts, p)
	m.mu.Unlock()
	if m.hold != nil {
		m.hold(p, r.Context())
	}
	fmt.Fprintf(w, answers[p.path], strings.Repeat("yy ", output), p.tokens, output)
}

// answers are streams of the text, the tokens of the prompt and those of the text.
var answers = map[string]string{
	"/v1/messages": "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":%q}}\n\n" +
		"data: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":%d,\"cache_read_input_tokens\":0,\"output_tokens\":%d}}\n\ndata: {\"type\":\"message_stop\"}\n\n",
	"/v1/responses": "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":%q}\n\n" +
		"data: {\"type\":\"response.completed\",\"response\":{\"error\":null,\"usage\":{\"input_tokens\":%d,\"output_tokens\":%d}}}\n\n",
	"/v1/completions": "data: {\"choices\":[{\"text\":%q}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n",
	"/v1/chat/completions": "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n" +
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\ndata: [DONE]\n\n",
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
// is missing is made up with the next turn. Each API has them its own way.
func TestPromptsGrowAsRecorded(t *testing.T) {
	for api, path := range map[string]string{Chat: "/v1/chat/completions", Messages: "/v1/messages", Responses: "/v1/responses", Completions: "/v1/completions"} {
		var m model
		steps := []Step{{Prompt: 1000, Output: 50}, {At: time.Second, Prompt: 1400, Output: 30}, {At: 2 * time.Second, Prompt: 2000, Output: 10}}
		for i := range steps {
			steps[i].API = api
		}
		measured, drift := replay(t, &m, Talk{Name: "a", Shared: 300, Steps: steps})
		report, err := measured.Report()
		if err != nil {
			t.Fatal(err)
		}
		if report.TurnsFinished != 3 || drift.Sent != 3 || drift.OutputReplayed != 90 || drift.OutputRecorded != 90 || report.TTFTp50 == nil {
			t.Errorf("%s: %+v, %+v", api, report, drift)
		}
		for i, p := range m.prompts {
			if p.path != path {
				t.Errorf("%s: sent to %s", api, p.path)
			}
			if i == 0 {
				continue
			}
			if !near(p.tokens, steps[i].Prompt, 60) {
				t.Errorf("%s: prompt %d has %d tokens, recorded were %d", api, i+1, p.tokens, steps[i].Prompt)
			}
			if !continues(m.prompts[i-1].messages, p.messages) {
				t.Errorf("%s: prompt %d is not the one before, its answer and more", api, i+1)
			}
		}
	}
}

// continues says whether a prompt is another one, the answer to it, and more.
func continues(before, now []message) bool {
	if last := len(before) - 1; now[last].Role == "" { // one text
		rest, ok := strings.CutPrefix(now[last].Content, before[last].Content)
		return ok && strings.HasPrefix(rest, "yy yy")
	}
	return slices.Equal(now[:len(before)], before) && now[len(before)].Role == "assistant" && strings.HasPrefix(now[len(before)].Content, "yy yy")
}

// A conversation that speaks two APIs goes on where it was.
func TestAConversationMayChangeItsAPI(t *testing.T) {
	var m model
	replay(t, &m, Talk{Name: "a", Steps: []Step{{API: Responses, Prompt: 500, Output: 5}, {At: time.Second, API: Chat, Prompt: 800, Output: 5}}})
	if len(m.prompts) != 2 || m.prompts[0].path != "/v1/responses" || m.prompts[1].path != "/v1/chat/completions" || !continues(m.prompts[0].messages, m.prompts[1].messages) {
		t.Errorf("%d prompts", len(m.prompts))
	}
}

func TestTalksOfAGroupBeginAlike(t *testing.T) {
	var m model
	one := []Step{{Prompt: 1000, Output: 1}}
	replay(t, &m, Talk{Name: "a", Group: "g", Shared: 300, Steps: one}, Talk{Name: "b", Group: "g", Shared: 400, Steps: one},
		Talk{Name: "c", Group: "other", Shared: 300, Steps: one}, Talk{Steps: one})
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
	replay(t, &m, Talk{Name: "a", Shared: 300, Steps: []Step{
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
		_, drift := replay(t, &m, Talk{Name: "a", Steps: []Step{{Prompt: 100, Output: 1}, {Prompt: 200, Output: 1, Overlaps: overlaps}}})
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
	measured, _ := replay(t, &m, Talk{Name: "a", Steps: []Step{{Prompt: 100, Output: 500, LeftAfter: 20 * time.Millisecond}}})
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
