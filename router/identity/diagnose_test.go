package identity

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lm-warden/warden/router/identity/scan"
)

// prompt is what the diagnosis tests vary.
type prompt struct {
	system  string
	tools   []string // name=definition
	turns   []string // a leading ! makes a system message
	billing string
	window  int
}

func (p prompt) identity() Identity {
	type m = map[string]any
	var messages, tools []any
	for i, text := range p.turns {
		role := []string{"user", "assistant"}[i%2]
		if rest, ok := strings.CutPrefix(text, "!"); ok {
			role, text = "system", rest
		}
		messages = append(messages, m{"role": role, "content": text})
	}
	for _, t := range p.tools {
		name, definition, _ := strings.Cut(t, "=")
		tools = append(tools, m{"name": name, "input_schema": definition})
	}
	system := []any{m{"type": "text", "text": p.system}}
	if p.billing != "" {
		system = append([]any{m{"type": "text", "text": "x-anthropic-billing-header:" + p.billing}}, system...)
	}
	body, err := json.Marshal(m{"model": "m", "system": system, "tools": tools, "messages": messages})
	if err != nil {
		panic(err)
	}
	id := described(Request{Path: "/v1/messages"}, body)
	id.Key, id.window = newKey("k"), p.window
	return id
}

// described is the Identity of a body whose root is new.
func described(r Request, body []byte) Identity {
	b := scan.Scan(r.Path, body)
	id := Identify(r, b)
	id.Describe(b, body)
	return id
}

func TestExplain(t *testing.T) {
	long := strings.Repeat("You are an agent that writes software. ", 100) // 3,900 bytes
	base := prompt{system: long + "Today is Mon Jan 05 2026 10:00. Memory: /home/u/.claude/projects/a/memory. Be brief.",
		tools: []string{"a=1", "b=2"}, turns: []string{"hi", "hello", "go"}, billing: "1"}
	tests := []struct {
		name   string
		edit   func(*prompt)
		client string
		cause  Cause
		text   string // of it, or of the fix
	}{
		{"date", func(p *prompt) { p.system = strings.Replace(p.system, "Mon Jan 05 2026", "Tue Feb 10 2026", 1) }, "cline",
			CauseSystemNumbers, "once a day"},
		{"clock", func(p *prompt) { p.system = strings.Replace(p.system, "10:00", "10:01", 1) }, "",
			CauseSystemNumbers, "newest user message"},
		{"where", func(p *prompt) { p.system = strings.Replace(p.system, "10:00", "10:01", 1) }, "",
			CauseSystemNumbers, "after character 3584 of 3984"},
		{"memory path", func(p *prompt) { p.system = strings.Replace(p.system, "projects/a/", "projects/b/", 1) }, ClaudeCode,
			CauseSystemPaths, "CLAUDE_CODE_DISABLE_AUTO_MEMORY=1"},
		{"path that differs in digits", func(p *prompt) { p.system = strings.Replace(p.system, "projects/a/", "projects/a2/", 1) }, "",
			CauseSystemPaths, "a path in the system prompt"},
		{"path and date", func(p *prompt) {
			p.system = strings.Replace(strings.Replace(p.system, "projects/a/", "projects/b/", 1), "Jan 05", "Jan 06", 1)
		}, "", CauseSystemPaths, "directory"},
		{"text", func(p *prompt) { p.system = "Always " + p.system }, "", CauseSystemText, "after character 0 of 3991"},
		{"tool added", func(p *prompt) { p.tools = append(p.tools, "c=3") }, ClaudeCode, CauseTools, "ENABLE_TOOL_SEARCH=false"},
		{"tools replaced", func(p *prompt) { p.tools = []string{"a=1", "c=3", "d=4"} }, "", CauseTools, "2 added, 1 removed, 0 redefined"},
		{"tool redefined", func(p *prompt) { p.tools = []string{"a=9", "b=2"} }, "", CauseTools, "0 added, 0 removed, 1 redefined"},
		{"tools moved", func(p *prompt) { p.tools = []string{"b=2", "a=1"} }, "", CauseTools, "another order"},
		{"history edited", func(p *prompt) { p.turns = []string{"hi", "hello there", "go", "x", "y"} }, "", CauseHistory, "turn 2 of 3"},
		{"compacted", func(p *prompt) { p.turns = []string{"summary"} }, "", CauseCompaction, "summary"},
		{"compacted in part", func(p *prompt) { p.turns, p.window = []string{"hi", "summary", "go", "x", "y"}, 1 }, clientCodex, CauseCompaction, "summary"},
		{"system turn", func(p *prompt) { p.turns = append(p.turns, "x", "!900 tokens left") }, ClaudeCode,
			CauseSystemTurns, "CLAUDE_CODE_TOTAL_TOKENS_REMINDER=off"},
		{"two system turns", func(p *prompt) { p.turns = append(p.turns, "!a", "!b") }, "", CauseSystemTurns, "2 new system messages"},
		{"billing line", func(p *prompt) { p.billing, p.turns = "2", append(p.turns, "x", "y") }, ClaudeCode,
			CauseBilling, "CLAUDE_CODE_ATTRIBUTION_HEADER=0"},
		{"only grown", func(p *prompt) { p.turns = append(p.turns, "x", "y") }, "", CauseEngine, "KV cache"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := NewIndex(Limits{})
			x.Finish(x.Resolve(base.identity(), testStart), Done, testStart)
			changed := base
			changed.tools, changed.turns = append([]string{}, base.tools...), append([]string{}, base.turns...)
			tt.edit(&changed)
			r := x.Resolve(changed.identity(), testStart)
			got := r.Change.Explain(tt.client)
			if got.Cause != tt.cause || !strings.Contains(got.Text+" "+got.Fix, tt.text) {
				t.Errorf("%+v\nfrom %+v\nwant %s with %q", got, r.Change, tt.cause, tt.text)
			}
		})
	}
}

// Reasoning and salt need members of their own.
func TestExplainBodies(t *testing.T) {
	tests := []struct {
		name, before, after string
		cause               Cause
	}{
		{"reasoning",
			`{"messages":[{"role":"user","content":"a"}]}`,
			`{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"b"}]},{"role":"user","content":"c"}]}`,
			CauseReasoning},
		{"salt",
			`{"cache_salt":"1","messages":[{"role":"user","content":"a"}]}`,
			`{"cache_salt":"2","messages":[{"role":"user","content":"a"}]}`,
			CauseSystemText},
	}
	for _, tt := range tests {
		x := NewIndex(Limits{})
		var r Resolution
		for _, body := range []string{tt.before, tt.after} {
			id := described(Request{Path: "/v1/messages"}, []byte(body))
			id.Key = newKey("k")
			r = x.Resolve(id, testStart)
			x.Finish(r, Done, testStart)
		}
		if got := r.Change.Explain(""); got.Cause != tt.cause {
			t.Errorf("%s: %+v from %+v", tt.name, got, r.Change)
		}
	}
	if got := (Change{}).Explain(""); got.Cause != CauseEngine || got.Fix == "" {
		t.Errorf("nothing to compare with: %+v", got)
	}
}

func TestMasks(t *testing.T) {
	sums := func(text string) [3]uint64 {
		s := describe([][]byte{[]byte(text)}, nil)
		return [3]uint64{s.noNumbers, s.noPaths, s.bare}
	}
	tests := []struct {
		a, b                   string
		numbers, paths, masked bool // equal with that masked
	}{
		{"on 2026-01-02", "on 2027-11-30", true, false, true},
		{"Monday, 3 May", "Friday, 14 June", true, false, true},
		{"Maybe", "Junebug", false, false, false},
		{"in /a/b now", "in /c now", false, true, true},
		{"in ~/a", "in ~/b", false, true, true},
		{"cwd=/a/1", "cwd=/a/2", true, true, true},
		{"and/or", "and/nor", false, false, false},
		{"a / b", "a / c", false, false, false},
		{"`/a` 1", "`/b` 2", false, false, true},
		{"x", "x", true, true, true},
	}
	for _, tt := range tests {
		a, b := sums(tt.a), sums(tt.b)
		got := fmt.Sprint(a[0] == b[0], a[1] == b[1], a[2] == b[2])
		if want := fmt.Sprint(tt.numbers, tt.paths, tt.masked); got != want {
			t.Errorf("%q, %q: equal with numbers, paths, both masked: %s, want %s", tt.a, tt.b, got, want)
		}
	}
}

// The shape of a root is wanted once, from the first that has it; one that
// nobody described is a change without a cause.
func TestRootsAreDescribedOnce(t *testing.T) {
	body := func(system string) []byte {
		return fmt.Appendf(nil, `{"system":%q,"messages":[{"role":"user","content":"a"}]}`, system)
	}
	request := Request{Path: "/v1/messages"}
	bare := func(system string) Identity {
		id := Identify(request, scan.Scan(request.Path, body(system)))
		id.Key = newKey("k")
		return id
	}
	x := NewIndex(Limits{})
	first := described(request, body("Be brief."))
	if x.RootKnown(&first) {
		t.Error("a root is known before it was seen")
	}
	x.Finish(x.Resolve(first, testStart), Done, testStart)
	again := bare("Be brief.")
	if !x.RootKnown(&again) {
		t.Fatal("a root that was seen is not known")
	}
	x.Finish(x.Resolve(again, testStart), Done, testStart)
	second := described(request, body("Be brief, today 2."))
	second.Key = newKey("k")
	r := x.Resolve(second, testStart)
	x.Finish(r, Done, testStart)
	if r.Change.System != SystemText {
		t.Errorf("against a root that was described by another: %+v", r.Change)
	}
	r = x.Resolve(bare("Another."), testStart)
	x.Finish(r, Done, testStart)
	if !r.Change.Rest || r.Change.System != SystemSame {
		t.Errorf("a root that nobody described: %+v", r.Change)
	}
	// What was described once, serves for comparisons with it later.
	r = x.Resolve(bare("Be brief."), testStart)
	if !r.Change.Rest {
		t.Errorf("compared with a root that nobody described: %+v", r.Change)
	}
}
