package prompt

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

func TestTokenizerPieces(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"The quick brown fox", []string{"The", " quick", " brown", " fox"}},
		{"internationalisation", []string{"intern", "ationa", "lisati", "on"}},
		{"  two", []string{" ", " two"}},
		{"größe äöü€", []string{"größ", "e", " äö", "ü€"}},
		{"", nil},
	}
	for _, tt := range tests {
		var got []string
		for _, id := range Words.Append(nil, tt.text) {
			piece, err := Words.Text(id)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, piece)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: %s", tt.text, diff)
		}
	}
}

func TestTokenizerRefusesForeignIDs(t *testing.T) {
	for tokenizer, ids := range map[Tokenizer][]core.Token{
		Words: {0, 256, 7<<48 | 9, 1 << 60},
		Bytes: {256, 400, 1 << 50},
	} {
		for _, id := range ids {
			if text, err := tokenizer.Text(id); err == nil {
				t.Errorf("tokenizer %d: id %d became %q", tokenizer, id, text)
			}
		}
	}
}

func FuzzTokenizer(f *testing.F) {
	for _, text := range []string{"", "Hello, world", "größe", "\xff\xfe \xc3", "a b  c\n\n", "<|im_end|>"} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, cut int) {
		for _, tokenizer := range []Tokenizer{Words, Bytes} {
			ids := tokenizer.Append(nil, text)
			back, err := tokenizer.Decode(ids)
			if err != nil || back != text {
				t.Fatalf("%q came back as %q: %v", text, back, err)
			}
			// A text cut between two tokens keeps the tokens before the cut: what
			// a generated answer relies on when it comes back in the next turn.
			n := 0
			if len(ids) > 0 {
				n = max(cut, 0) % len(ids)
			}
			head, _ := tokenizer.Decode(ids[:n])
			if !slices.Equal(tokenizer.Append(nil, head), ids[:n]) {
				t.Fatalf("%q: the first %d tokens change when the text ends there", text, n)
			}
			for _, id := range ids {
				if id == tokenizer.Special(TurnStart) || id == tokenizer.Special(TurnEnd) {
					t.Fatalf("%q contains a special token", text)
				}
			}
		}
	})
}

func TestRenderTemplate(t *testing.T) {
	c := Conversation{
		System:   "Be brief.",
		Messages: []Message{{Role: "user", Text: "hi"}, {Role: "assistant", Text: "", Calls: []Call{{Name: "ls", Arguments: `{ "b":1, "a":[ ] }`}}}, {Role: "tool", Text: "x"}},
		Tools:    []Tool{{Name: "ls", Definition: []byte(`{"type":"function","function":{"name":"ls"}}`)}},
	}
	want := `<|im_start|>system
Be brief.

# Tools

<tools>
{"function":{"name":"ls"},"type":"function"}
</tools><|im_end|>
<|im_start|>user
hi<|im_end|>
<|im_start|>assistant
<tool_call>
{"name": "ls", "arguments": {"a":[],"b":1}}
</tool_call><|im_end|>
<|im_start|>tool
x<|im_end|>
<|im_start|>assistant
`
	for _, tokenizer := range []Tokenizer{Words, Bytes} {
		got, err := tokenizer.Decode(Render(tokenizer, c))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tokenizer %d: %s", tokenizer, diff)
		}
	}
}

// The byte tokenizer counts as the built-in random model does: one token per
// byte and one per special token.
func TestByteTokenizerCounts(t *testing.T) {
	got := Render(Bytes, Conversation{Messages: []Message{{Role: "user", Text: strings.Repeat("y", 2700)}}})
	// <|im_start|> user \n ... <|im_end|> \n  +  <|im_start|> assistant \n
	if want := 1 + 4 + 1 + 2700 + 1 + 1 + 1 + 9 + 1; len(got) != want {
		t.Errorf("%d tokens, want %d", len(got), want)
	}
}

// Each turn's prompt must start with the previous prompt and its answer.
func TestConversationsGrowAtTheirEnd(t *testing.T) {
	for _, tokenizer := range []Tokenizer{Words, Bytes} {
		writer := Writer{Tokenizer: tokenizer}
		c := Conversation{System: "You are an agent.", Tools: []Tool{{Name: "Read", Definition: []byte(`{"name":"Read"}`)}}}
		var before []core.Token
		for turn := range 5 {
			text := "Turn number " + strings.Repeat("x ", turn)
			if turn == 2 {
				text = `[[tool:Read {"path":"ü.go"}]]`
			}
			c.Messages = append(c.Messages, Message{Role: "user", Text: text})
			rendered := Render(tokenizer, c)
			if len(before) > 0 && !slices.Equal(rendered[:len(before)], before) {
				t.Fatalf("turn %d does not start with turn %d and its answer", turn, turn-1)
			}
			script, due := c.Script()
			answer := writer.Write(rendered, Wish{Script: script, Calls: due, MaxTokens: 500})
			c.Messages = append(c.Messages, Message{Role: "assistant", Text: answer.Text, Calls: answer.Calls})
			before = slices.Concat(rendered, answer.Tokens)
		}
	}
}

func TestScripts(t *testing.T) {
	call := func(name, arguments string) Call { return Call{Name: name, Arguments: arguments} }
	tests := []struct {
		text  string
		want  Script
		found bool
	}{
		{"hello [[not:a marker]] [[sim:unknown 3]] [[sim:words x]]", Script{}, false},
		{"[[sim:words 40]] [[sim:delay 1500ms]]", Script{Words: 40, Delay: 1500 * time.Millisecond}, true},
		{"x[[sim:say a [b] c]]y", Script{Say: "a [b] c"}, true},
		{"[[sim:error 503]][[sim:tokens 7]]", Script{Error: 503, Tokens: 7}, true},
		{"[[sim:error 200]][[sim:delay -1s]]", Script{}, false},
		{"[[sim:reset 0]]", Script{Cut: Cut{Kind: Reset}}, true},
		{"[[sim:stream-error 3]]", Script{Cut: Cut{Kind: StreamError, After: 3}}, true},
		{`[[tool:Read {"a": "]] }"}]]`, Script{Rounds: [][]Call{{call("Read", `{"a":"]] }"}`)}}}, true},
		{`[[tool:A {}]]+[[tool:B {}]] [[tool:C {}]]`, Script{Rounds: [][]Call{{call("A", "{}"), call("B", "{}")}, {call("C", "{}")}}}, true},
		{`[[tool:Agent {"prompt":"[[sim:words 5]] go"}]]`, Script{Rounds: [][]Call{{call("Agent", `{"prompt":"[[sim:words 5]] go"}`)}}}, true},
		{`[[tool:A [1]]] [[tool:A {}`, Script{}, false},
		{`[[[sim:words 2]]`, Script{Words: 2}, true},
	}
	for _, tt := range tests {
		got, found := ParseScript(tt.text)
		if diff := cmp.Diff(tt.want, got); diff != "" || found != tt.found {
			t.Errorf("%q: found %v: %s", tt.text, found, diff)
		}
	}
}

func TestToolRoundsFollowTheLoop(t *testing.T) {
	user := func(text string) Message { return Message{Role: "user", Text: text} }
	calls := Message{Role: "assistant", Calls: []Call{{Name: "A", Arguments: "{}"}}}
	result := Message{Role: "tool", Text: `[[tool:X {}]]`}
	text := Message{Role: "assistant", Text: "done"}
	script := user(`[[tool:A {}]] then [[tool:B {}]]`)
	tools := []Tool{{Name: "A"}}
	tests := []struct {
		name     string
		messages []Message
		tools    []Tool
		due      string
	}{
		{"first round", []Message{script}, tools, "A"},
		{"second round", []Message{script, calls, result}, tools, "B"},
		{"reminder in the loop", []Message{script, calls, result, user("remember")}, tools, "B"},
		{"rounds are over", []Message{script, calls, result, calls, result}, tools, ""},
		{"no tools offered", []Message{script}, nil, ""},
		{"new question", []Message{script, calls, result, calls, result, text, user("hi")}, tools, ""},
		{"new question before the rounds were over", []Message{script, text, user("hi")}, tools, ""},
		{"new script", []Message{script, calls, result, text, user(`[[tool:C {}]]`)}, tools, "C"},
		{"reminder before the script", []Message{user("remember"), script}, tools, "A"},
		{"reminder after the script", []Message{script, user("remember")}, tools, "A"},
		{"nothing", nil, tools, ""},
	}
	for _, tt := range tests {
		_, due := Conversation{Messages: tt.messages, Tools: tt.tools}.Script()
		got := ""
		if len(due) > 0 {
			got = due[0].Name
		}
		if got != tt.due {
			t.Errorf("%s: due %q, want %q", tt.name, got, tt.due)
		}
	}
}

func FuzzScript(f *testing.F) {
	f.Add(`[[tool:A {"x":1}]]+[[tool:B {}]] [[sim:words 4]]`)
	f.Add(`[[sim:say [[tool:A {}]]]]`)
	f.Fuzz(func(t *testing.T, text string) {
		s, found := ParseScript(text)
		if !found && !cmp.Equal(s, Script{}) {
			t.Fatalf("%q: markers applied but not found: %+v", text, s)
		}
		if s.Words < 0 || s.Tokens < 0 || s.Delay < 0 || s.Cut.After < 0 {
			t.Fatalf("%q: negative script %+v", text, s)
		}
	})
}

func TestAnswers(t *testing.T) {
	ask := Render(Words, Conversation{Messages: []Message{{Role: "user", Text: "hi"}}})
	tests := []struct {
		name   string
		wish   Wish
		tokens int // 0 = not fixed
		text   string
		end    bool
	}{
		{"default", Wish{MaxTokens: 1000}, 0, "", true},
		{"say", Wish{MaxTokens: 1000, Script: Script{Say: "yes"}}, 0, "SIMULATED yes", true},
		{"tokens", Wish{MaxTokens: 1000, Script: Script{Tokens: 50}}, 50, "", true},
		{"ignore eos", Wish{MaxTokens: 120, IgnoreEOS: true}, 120, "", false},
		{"min tokens", Wish{MaxTokens: 500, MinTokens: 300}, 301, "", true},
		{"stop", Wish{MaxTokens: 500, Stop: []string{"zzz", "ATE"}}, 2, "SIMUL", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := Writer{}.Write(ask, tt.wish)
			if diff := cmp.Diff(a, Writer{}.Write(ask, tt.wish)); diff != "" {
				t.Errorf("not deterministic: %s", diff)
			}
			if tt.tokens > 0 && len(a.Tokens) != tt.tokens {
				t.Errorf("%d tokens, want %d", len(a.Tokens), tt.tokens)
			}
			if tt.text != "" && a.Text != tt.text {
				t.Errorf("text %q, want %q", a.Text, tt.text)
			}
			if tt.wish.Stop == nil && !strings.HasPrefix(a.Text, Label) {
				t.Errorf("%q is not labelled", a.Text)
			}
			if got := a.Tokens[len(a.Tokens)-1] == Words.Special(TurnEnd); got != tt.end {
				t.Errorf("ends with <|im_end|>: %v, want %v", got, tt.end)
			}
			if got := joined(a, Content); got != a.Text {
				t.Errorf("pieces say %q, text %q", got, a.Text)
			}
		})
	}
}

func joined(a Answer, kind PieceKind) string {
	var b strings.Builder
	for _, pieces := range a.Pieces {
		for _, p := range pieces {
			if p.Kind == kind {
				b.WriteString(p.Text)
			}
		}
	}
	return b.String()
}

func TestAnswersDiffer(t *testing.T) {
	ask, other := Words.Append(nil, "one"), Words.Append(nil, "two")
	base := Writer{}.Write(ask, Wish{MaxTokens: 500}).Text
	for name, text := range map[string]string{
		"prompt": Writer{}.Write(other, Wish{MaxTokens: 500}).Text,
		"seed":   Writer{Seed: 1}.Write(ask, Wish{MaxTokens: 500}).Text,
		"choice": Writer{}.Write(ask, Wish{MaxTokens: 500, Choice: 1}).Text,
	} {
		if text == base {
			t.Errorf("another %s gives the same answer", name)
		}
	}
}

func TestAllowedTokensAreRepeated(t *testing.T) {
	a := Writer{Tokenizer: Bytes}.Write(nil, Wish{MaxTokens: 5, Allowed: []core.Token{121}})
	if a.Text != "yyyyy" || len(a.Tokens) != 5 || !a.Endless {
		t.Errorf("got %+v", a)
	}
}

func TestToolCallPieces(t *testing.T) {
	calls := []Call{{Name: "Read", Arguments: `{"path":"größe.go"}`}, {Name: "ls", Arguments: `{}`}}
	for _, tokenizer := range []Tokenizer{Words, Bytes} {
		a := Writer{Tokenizer: tokenizer}.Write(nil, Wish{MaxTokens: 500, Calls: calls})
		var starts []string
		arguments := make([]string, len(calls))
		for _, pieces := range a.Pieces {
			for _, p := range pieces {
				if !utf8.ValidString(p.Text) {
					t.Errorf("tokenizer %d: piece %q splits a character", tokenizer, p.Text)
				}
				switch p.Kind {
				case CallStart:
					starts = append(starts, p.Text)
				case CallArguments:
					if len(starts) != p.Call+1 {
						t.Errorf("arguments of call %d before its name", p.Call)
					}
					arguments[p.Call] += p.Text
				case Content:
					t.Errorf("tokenizer %d: text %q in a pure tool call", tokenizer, p.Text)
				}
			}
		}
		if diff := cmp.Diff([]string{"Read", "ls"}, starts); diff != "" {
			t.Errorf("tokenizer %d: %s", tokenizer, diff)
		}
		if diff := cmp.Diff([]string{calls[0].Arguments, calls[1].Arguments}, arguments); diff != "" {
			t.Errorf("tokenizer %d: %s", tokenizer, diff)
		}
	}
}
