package scan

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"
)

var scanFields = []struct {
	name, path, body string
	check            func(*Body) bool
}{
	{"model", "/v1/chat/completions", `{"model":"m\u0031"}`, func(b *Body) bool { return b.Model == "m1" }},
	{"escaped key", "/v1/chat/completions", `{"mod\u0065l":"m"}`, func(b *Body) bool { return b.Model == "m" }},
	{"last member wins", "/v1/chat/completions", `{"model":"a","stream":true,"model":"b","stream":false}`,
		func(b *Body) bool { return b.Model == "b" && !b.Stream }},
	{"member names are exact", "/v1/chat/completions", `{"Model":"a"}`, func(b *Body) bool { return b.Model == "" }},
	{"model of another type", "/v1/chat/completions", `{"model":["a"]}`, func(b *Body) bool { return b.Valid && b.Model == "" }},
	{"usage asked for", "/v1/chat/completions", `{"stream":true,"stream_options":{"include_usage":true}}`,
		func(b *Body) bool { return b.Stream && b.IncludeUsage }},
	{"usage taken back", "/v1/chat/completions", `{"stream_options":{"include_usage":true},"stream_options":null}`,
		func(b *Body) bool { return !b.IncludeUsage }},
	{"answers", "/v1/chat/completions", `{"n":3}`, func(b *Body) bool { return b.N == 3 }},
	{"no answers", "/v1/chat/completions", `{"n":0}`, func(b *Body) bool { return b.N == 1 }},
	{"newest limit first", "/v1/chat/completions", `{"max_tokens":5,"max_completion_tokens":7}`,
		func(b *Body) bool { return b.MaxTokens == 7 }},
	{"limit of responses", "/v1/responses", `{"max_output_tokens":9}`, func(b *Body) bool { return b.MaxTokens == 9 }},
	{"limit out of range", "/v1/messages", `{"max_tokens":1e300}`, func(b *Body) bool { return b.MaxTokens == 1<<31-1 }},
	{"negative limit", "/v1/messages", `{"max_tokens":-4}`, func(b *Body) bool { return b.MaxTokens == 0 }},
	{"Python's numbers", "/v1/messages", `{"temperature":NaN,"top_p":-Infinity,"model":"m"}`,
		func(b *Body) bool { return b.Valid && b.Model == "m" }},
	{"text", "/v1/chat/completions", `{"messages":[{"role":"system","content":"1234"},{"role":"user","content":"56é"}]}`,
		func(b *Body) bool { return b.Chars == 8 && len(b.Chain) == 1 && b.Ends[0] == 8 && b.FirstUser == 0 }},
	{"images are no text", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":[{"type":"text","text":"ab"},{"type":"image_url","image_url":{"url":"data:AAAA"}}]}]}`,
		func(b *Body) bool { return b.Chars == 2 && b.Images == 1 }},
	{"tools are text", "/v1/chat/completions", `{"tools":[{"name":"a"}]}`,
		func(b *Body) bool { return b.Tools == 1 && b.Chars == len(`{"name":"a"}`) }},
	{"reasoning", "/v1/messages",
		`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"long"},{"type":"text","text":"a"}]}]}`,
		func(b *Body) bool { return b.Reasoning == 1 && b.Chars == 1 && b.FirstUser == -1 }},
	{"reasoning in chat", "/v1/chat/completions",
		`{"messages":[{"role":"assistant","content":"a","reasoning_content":"long"},{"role":"assistant","reasoning":null}]}`,
		func(b *Body) bool { return b.Reasoning == 1 && b.Chars == 1 }},
	{"input as text", "/v1/responses", `{"input":"abc","instructions":"de"}`,
		func(b *Body) bool { return b.Chars == 5 && len(b.Chain) == 1 && b.FirstUser == 0 }},
	{"input as bare strings", "/v1/responses", `{"input":["abc"]}`, func(b *Body) bool { return b.Chars == 3 }},
	{"prompt", "/v1/completions", `{"prompt":"abc"}`, func(b *Body) bool { return b.Chars == 3 && b.Open && len(b.Chain) == 1 }},
	{"prompts", "/v1/completions", `{"prompt":["abc","d"]}`, func(b *Body) bool { return b.Chars == 4 && !b.Open && len(b.Chain) == 2 }},
	{"token ids", "/v1/completions", `{"prompt":[1,2,3]}`, func(b *Body) bool { return b.Chars == 12 && len(b.Chain) == 1 }},
	{"lists of token ids", "/v1/completions", `{"prompt":[[1,2],[3]]}`, func(b *Body) bool { return b.Chars == 12 && len(b.Chain) == 2 }},
	{"embeddings", "/v1/embeddings", `{"input":["abc","de"]}`, func(b *Body) bool { return b.Chars == 5 && len(b.Chain) == 0 }},
	{"one embedding", "/v1/embeddings", `{"input":"abc"}`, func(b *Body) bool { return b.Chars == 3 }},
	{"a member of another API", "/v1/chat/completions", `{"input":"abc","prompt":"abc","system":"s"}`,
		func(b *Body) bool { return b.Chars == 0 && len(b.Chain) == 0 }},
	{"messages twice", "/v1/messages", `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"messages":[{"role":"user","content":"c"}]}`,
		func(b *Body) bool { return len(b.Chain) == 1 && b.Chars == 1 }},
	{"odd messages", "/v1/messages", `{"messages":[1,null,"x",[],{"role":7,"content":{"a":1}},{"content":false}]}`,
		func(b *Body) bool { return b.Valid && len(b.Chain) == 6 }},
	{"no messages", "/v1/messages", `{"messages":null}`, func(b *Body) bool { return b.Valid && len(b.Chain) == 0 }},
}

func TestScanFields(t *testing.T) {
	for _, tt := range scanFields {
		t.Run(tt.name, func(t *testing.T) {
			if b := Scan(tt.path, []byte(tt.body)); !b.Valid || !tt.check(b) {
				t.Errorf("%s\n%+v", tt.body, b)
			}
		})
	}
}

func TestScanNotValid(t *testing.T) {
	for _, body := range []string{
		"", " ", "null", "1", `"x"`, "[]", "{", "}", "{}}", "{}x", `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a" 1}`,
		`{"model":"m`, `{"model":"m\`, `{"model":"m\"}`, `{"messages":[}`, `{"messages":[{"role":"user"]}`,
		`{"messages":[{"content":"\u12`, "\xef\xbb\xbf{}", "\x1f\x8b\x08", `{"tools":[1 2]}`,
	} {
		b := Scan("/v1/messages", []byte(body))
		if b.Valid || b.Model != "" || len(b.Chain) > 0 {
			t.Errorf("%q is taken as valid: %+v", body, b)
		}
	}
}

// What is left of a body without its turns.
func TestBesidesTurns(t *testing.T) {
	for body, want := range map[string]string{
		`{"model":"m","messages": [{"role":"user","content":"a]"}] ,"n":1}`:    `{"model":"m","messages":  ,"n":1}`,
		`{"messages":[{"role":"user"}],"n":2,"messages":[{"role":"user"},{}]}`: `{"messages":[{"role":"user"}],"n":2,"messages":}`,
		`{"model":"m","messages":[]}`:                                          `{"model":"m","messages":[]}`,
		`{"model":"m"}`:                                                        `{"model":"m"}`,
		`{"messages":[{"role":"user"}],"messages":null}`:                       `{"messages":[{"role":"user"}],"messages":null}`,
	} {
		before, behind := Scan("/v1/chat/completions", []byte(body)).BesidesTurns([]byte(body))
		if got := string(before) + string(behind); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	body := []byte(`{"prompt":"a b","n":1}`)
	if before, behind := Scan("/v1/completions", body).BesidesTurns(body); string(before)+string(behind) != `{"prompt":,"n":1}` {
		t.Errorf("%s%s", before, behind)
	}
}

// Bodies above the limit keep their fields and lose their content.
func TestOversize(t *testing.T) {
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("x", 9<<20) +
		`"}],"tools":[{"name":"a"}],"stream":true,"prompt_cache_key":"k"}`)
	b := Scan("/v1/chat/completions", body)
	if !b.Valid || !b.Oversize || b.Model != "m" || !b.Stream || b.Tools != 1 || len(b.Chain) != 0 || b.Root != 0 {
		t.Fatalf("%+v", b)
	}
}

// However small a client makes the pieces, a scan costs at most twice the body.
func TestScanMemory(t *testing.T) {
	repeat := func(head, piece, tail string) []byte {
		return []byte(head + strings.Repeat(piece+",", 1<<20/len(piece)) + piece + tail)
	}
	for name, body := range map[string][]byte{
		"agent":    agentBody(1 << 20),
		"turns":    repeat(`{"messages":[`, `{}`, `]}`),
		"numbers":  repeat(`{"messages":[`, `1`, `]}`),
		"system":   repeat(`{"messages":[{"role":"user"},`, `{"role":"system","content":"a"}`, `]}`),
		"leading":  repeat(`{"messages":[`, `{"role":"system","content":"a"}`, `]}`),
		"texts":    repeat(`{"messages":[{"role":"user","content":[`, `""`, `]}]}`),
		"blocks":   repeat(`{"system":[`, `""`, `]}`),
		"tools":    repeat(`{"tools":[`, `1`, `]}`),
		"escapes":  repeat(`{"messages":[{"role":"user","content":"`, `\u00e9`, `"}]}`),
		"members":  repeat(`{`, `"model":"a"`, `}`),
		"brackets": repeat(`{"messages":[`, strings.Repeat(`[`, 1000)+strings.Repeat(`]`, 1000), `]}`),
		"arguments": repeat(`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[`,
			`{\"a\":1}`, `]"}}]}]}`),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			if !Scan("/v1/messages", body).Valid {
				t.Fatal("not valid")
			}
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; used > 2*uint64(len(body)) {
				t.Errorf("%d bytes for a body of %d", used, len(body))
			}
		})
	}
}

// Depth costs neither stack nor time beyond the bytes.
func TestDepth(t *testing.T) {
	const depth = 1 << 20
	deep := strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth)
	nested := strings.Repeat(`{"content":[`, depth) + strings.Repeat(`]}`, depth)
	for _, body := range []string{
		`{"messages":` + deep + `}`,
		`{"messages":[` + nested + `]}`,
		`{"messages":[{"role":"assistant","content":[{"type":"tool_use","input":` + deep + `}]}]}`,
		`{"tools":` + deep + `,"unknown":` + deep + `}`,
		`{"metadata":` + deep + `,"system":` + deep + `}`,
	} {
		if b := Scan("/v1/messages", []byte(body)); !b.Valid {
			t.Errorf("%.60s… is not valid", body)
		}
	}
}

// What a client changes about a turn as it ages must not change its hash.
func TestCanonical(t *testing.T) {
	message := func(content string) uint64 {
		b := Scan("/v1/messages", []byte(`{"messages":[{"role":"user","content":"x"},`+content+`]}`))
		if !b.Valid || len(b.Chain) != 2 {
			t.Fatalf("%s: %+v", content, b)
		}
		return b.Chain[1]
	}
	equal := [][]string{
		{`{"role":"user","content":"a\nb"}`, `{"role":"user","content":[{"type":"text","text":"a\nb"}]}`,
			`{"content":[{"cache_control":{"type":"ephemeral"},"text":"a\u000ab","type":"text"}],"role":"user","id":"x"}`,
			`{"role":"user","content":["a\nb"]}`, `{"type":"message","role":"user","content":[{"type":"input_text","text":"a\nb"}]}`,
			`{"role":"user","content":[{"type":"text","text":"a\nb","citations":null},{"type":"text","text":""}]}`},
		{`{"role":"system","content":"s"}`, `{"role":"developer","content":"s"}`},
		{`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1,\"b\":[2]}"}}]}`,
			`{"role":"assistant","content":"","tool_calls":[{"function":{"arguments":"{ \"b\": [2], \"a\": 1 }","name":"f"},"type":"function","id":"2","index":0}],"reasoning_content":"hm"}`,
			`{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"a\":1,\"b\":[2]}"}}],"refusal":null,"audio":null,"annotations":[]}`},
		{`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{"a":"é","b":{"c":1,"d":2}}}]}`,
			`{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"},{"type":"tool_use","id":"2","name":"f","input":{"b":{"d":2,"c":1},"a":"\u00e9"}}]}`},
		{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"ok"}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":false,"content":[{"type":"text","text":"ok","cache_control":{}}]}]}`},
		{`{"type":"function_call","id":"fc_1","status":"completed","call_id":"c","name":"f","arguments":"{\"a\":1}"}`,
			`{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\": 1}"}`},
		{`{"role":"user","content":"\ud83d\ude00"}`, `{"role":"user","content":"😀"}`, `{"role":"user","content":[{"type":"text","text":"\uD83D\uDE00"}]}`},
		{`{"role":"user","content":[{"type":"image","source":{"data":"AAAA"}}]}`},
		{`{"role":"user","content":[{"type":"image","source":{"data":"AAAB"}}]}`},
		{`{"role":"user","content":"a"}`}, {`{"role":"assistant","content":"a"}`}, {`{"role":"tool","content":"a"}`},
		{`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		{`{"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"a"}]}`},
		{`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true,"content":"ok"}]}`},
		{`{"role":"user","content":"a\\nb"}`}, {`{"role":"user","content":"C:\\users"}`}, {`{"role":"user","content":"C:\users"}`},
	}
	seen := map[uint64]string{}
	for _, class := range equal {
		first := message(class[0])
		if other, ok := seen[first]; ok {
			t.Errorf("%s\nhas the hash of\n%s", class[0], other)
		}
		seen[first] = class[0]
		for _, m := range class[1:] {
			if message(m) != first {
				t.Errorf("%s\nhas not the hash of\n%s", m, class[0])
			}
		}
	}
}

func TestRoot(t *testing.T) {
	root := func(path, body string) uint64 {
		b := Scan(path, []byte(body))
		if !b.Valid {
			t.Fatalf("%s is not valid", body)
		}
		return b.Root
	}
	const m = "/v1/messages"
	base := root(m, `{"system":"s","tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}]}`)
	for name, tt := range map[string]struct {
		body string
		same bool
	}{
		"blocks":           {`{"system":[{"type":"text","text":"s","cache_control":{}}],"tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}]}`, true},
		"tools first":      {`{"tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}],"system":"s"}`, true},
		"cache mark":       {`{"system":"s","tools":[{"name":"a","input_schema":{"x":1}},{"cache_control":{},"name":"b"}]}`, true},
		"member order":     {`{"system":"s","tools":[{"input_schema":{"x":1},"name":"a"},{"name":"b"}]}`, true},
		"billing block":    {`{"system":[{"type":"text","text":"x-anthropic-billing-header: 1"},{"type":"text","text":"s"}],"tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}]}`, true},
		"billing line":     {`{"system":"x-anthropic-billing-header: 1\ns","tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}]}`, true},
		"with turns":       {`{"system":"s","tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}],"messages":[{"role":"user","content":"u"}]}`, true},
		"leading message":  {`{"tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}],"messages":[{"content":"s","role":"system"},{"role":"user","content":"u"}]}`, true},
		"tool order":       {`{"system":"s","tools":[{"name":"b"},{"name":"a","input_schema":{"x":1}}]}`, false},
		"tool schema":      {`{"system":"s","tools":[{"name":"a","input_schema":{"x":2}},{"name":"b"}]}`, false},
		"other text":       {`{"system":"t","tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}]}`, false},
		"salt":             {`{"system":"s","cache_salt":"z","tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}]}`, false},
		"no tools":         {`{"system":"s"}`, false},
		"system text last": {`{"tools":[{"name":"a","input_schema":{"x":1}},{"name":"b"}],"messages":[{"role":"user","content":"u"},{"role":"system","content":"s"}]}`, false},
	} {
		if got := root(m, tt.body) == base; got != tt.same {
			t.Errorf("%s: same root = %v", name, got)
		}
	}
	instructions := root("/v1/responses", `{"instructions":"s","input":[{"role":"user","content":"u"}]}`)
	developer := root("/v1/responses", `{"input":[{"role":"developer","content":[{"type":"input_text","text":"s"}]},{"role":"user","content":"u"}]}`)
	if instructions != developer {
		t.Error("a leading developer item is not the same as instructions")
	}
}

// A raw prompt that a client continues keeps its beginning.
func TestPromptBlocks(t *testing.T) {
	prompt := func(text string) *Body {
		body, err := json.Marshal(map[string]string{"model": "m", "prompt": text})
		if err != nil {
			t.Fatal(err)
		}
		return Scan("/v1/completions", body)
	}
	text := strings.Repeat("0123456789abcde\n", 200) // 3,200 bytes, 3 whole blocks
	short, long := prompt(text), prompt(text+"and more")
	if n := len(short.Chain); n != 4 || short.Ends[3] != len(text) || !slices.Equal(short.Chain[:3], long.Chain[:3]) || short.Chain[3] == long.Chain[3] {
		t.Fatalf("%d blocks, ends %v", n, short.Ends)
	}
}

func FuzzScan(f *testing.F) {
	for _, body := range []string{
		"", "{", `{"model":"m"}`, `{"model":"a","model":"b"}`, `{"\u006dodel":"\ud83d\ude00\ud800"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"stream_options":{}}`,
		`{"stream_options":{"include_usage":false},"tools":[{"function":{"name":"f"}}]}`,
		`{"messages":[{"role":"user","content":"a"},{"content":[{"type":"text","text":"b"}],"role":"system"}]}`,
		`{"input":[{"type":"function_call","arguments":"{\"a\":[1,{}]}"}],"prompt":[[1],"x"]}`,
		`{"metadata":{"user_id":"{\"session_id\":\"s\"}"},"client_metadata":{"x-codex-turn-metadata":"{\"thread_id\":\"t\"}"}}`,
		`{"a":[[[[[[[[]]]]]]]],"system":"x-anthropic-billing-header: 1\n/home/u/2026-01-02 Mon"}`, ` { } `, `{"n":1e9999}`,
	} {
		for i := range len(fuzzPaths) {
			f.Add(uint8(i), []byte(body))
		}
	}
	for _, g := range goldenBodies(f) {
		f.Add(uint8(len(g)), g)
	}
	f.Fuzz(func(t *testing.T, path uint8, body []byte) {
		checkScan(t, fuzzPaths[int(path)%len(fuzzPaths)], body)
	})
}

var fuzzPaths = []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/v1/completions", "/v1/embeddings", "/tokenize"}

// goldenBodies are all bodies of the samples that identity is tested with.
func goldenBodies(t testing.TB) (out [][]byte) {
	files, err := filepath.Glob("../testdata/golden/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no samples", err)
	}
	for _, file := range files {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range archive.Files {
			if _, body, ok := strings.Cut(string(a.Data), "\n\n"); ok {
				out = append(out, []byte(strings.TrimSpace(body)))
			}
		}
	}
	return out
}

// checkScan holds Scan against encoding/json, and Edit against Scan.
func checkScan(t *testing.T, path string, body []byte) {
	before := bytes.Clone(body)
	b := Scan(path, body)
	if !bytes.Equal(body, before) {
		t.Fatal("the body was written to")
	}
	if len(b.Chain) != len(b.Ends) || b.FirstUser >= len(b.Chain) || b.Chars < 0 || b.Chars > len(body)*4 {
		t.Fatalf("inconsistent: %+v", b)
	}
	for _, text := range b.SystemText(body) {
		if len(text) == 0 {
			t.Fatal("a part of the system text is empty")
		}
	}
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil || members == nil {
		return
	}
	if !b.Valid {
		t.Fatalf("valid JSON is not taken as such: %q", body)
	}
	var model string
	if utf8.Valid(body) && json.Unmarshal(members["model"], &model) == nil && model != b.Model {
		t.Fatalf("model %q, want %q", b.Model, model)
	}
	for _, e := range []Edit{{IncludeUsage: true}, {Model: "other"}, {FoldSystemTurns: true}, {Model: "other", IncludeUsage: true, FoldSystemTurns: true}} {
		checkEdit(t, path, body, b, e)
	}
}

func checkEdit(t *testing.T, path string, body []byte, b *Body, e Edit) {
	out := bytes.Join(b.Edited(body, e), nil)
	after := Scan(path, out)
	if !json.Valid(out) || !after.Valid {
		t.Fatalf("%+v makes %q of %q", e, out, body)
	}
	if e.IncludeUsage && !after.IncludeUsage || e.Model != "" && after.Model != e.Model || after.Root != b.Root {
		t.Fatalf("%+v makes %q of %q: %+v", e, out, body, after)
	}
	if !e.FoldSystemTurns && !slices.Equal(after.Chain, b.Chain) {
		t.Fatalf("%+v changed the history of %q", e, body)
	}
	if len(after.Chain) != len(b.Chain) {
		t.Fatalf("%+v changed the number of turns of %q", e, body)
	}
}
