package benchpath

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// template is a request body as an agent sends it: tools, a system prompt, tool
// calls with JSON inside JSON, results full of code. Its size is exact; session
// and turn are eight digits that are set in place.
type template struct {
	raw           []byte
	session, turn int // where the digits stand
}

const (
	sessionHole = "#session"
	turnHole    = "#turn-no" // as long as the digits
	holeFormat  = "%08d"
)

// withTools is the size from which a body has tools: they take about 3 kB.
const withTools = 8 << 10

type message struct {
	Role      string     `json:"role"`
	Content   any        `json:"content"`
	ToolCalls []toolCall `json:"tool_calls,omitempty"`
	CallID    string     `json:"tool_call_id,omitempty"`
}

type toolCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// newTemplate makes a body of size bytes whose answer is the script's, streamed
// with usage, or one piece.
func newTemplate(model string, size int, s script, stream bool) (template, error) {
	request := map[string]any{"model": model, "temperature": 0.2, "max_tokens": 4096}
	if stream {
		request["stream"], request["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	messages := []message{
		{Role: "system", Content: "You are a coding agent. Answer with tool calls or text."},
		{Role: "user", Content: "Session " + sessionHole + ": mend the failing test."},
	}
	if size >= withTools {
		request["tools"] = tools()
	}
	// The last message fills up to the size, so a call and its result must fit.
	last := message{Role: "user", Content: "Turn " + turnHole + ". " + s.words() + " "}
	length := len(encode(request)) + len(encode(append(messages, last))) + len(`,"messages":`)
	for n := 0; ; n++ {
		call := callAndResult(n)
		more := len(encode(call)) - 1 // without its brackets, with a comma
		if length+more > size {
			break
		}
		messages, length = append(messages, call...), length+more
	}
	if length > size {
		return template{}, fmt.Errorf("no body of %d bytes: the smallest has %d", size, length)
	}
	last.Content = last.Content.(string) + strings.Repeat("x", size-length)
	request["messages"] = append(messages, last)
	t := template{raw: encode(request)}
	t.session, t.turn = bytes.Index(t.raw, []byte(sessionHole)), bytes.Index(t.raw, []byte(turnHole))
	if len(t.raw) != size || t.session < 0 || t.turn < 0 {
		return template{}, fmt.Errorf("a body has %d bytes, want %d", len(t.raw), size)
	}
	return t, nil
}

// of is the body of one session, for itself alone.
func (t template) of(session int) []byte {
	body := bytes.Clone(t.raw)
	copy(body[t.session:], fmt.Sprintf(holeFormat, session))
	t.setTurn(body, 0)
	return body
}

func (t template) setTurn(body []byte, turn int) {
	copy(body[t.turn:], fmt.Sprintf(holeFormat, turn))
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // agents are no Go programs
	if err := e.Encode(v); err != nil {
		panic("benchpath: maps and strings always marshal: " + err.Error())
	}
	return bytes.TrimSpace(b.Bytes())
}

// code is what results of tools hold: quotes, tabs, new lines, backslashes and
// letters beyond ASCII, so that about one byte in fifteen is escaped.
const code = `	if err := json.Unmarshal([]byte("{\"path\": \"C:\\temp\"}"), &v); err != nil {
		return fmt.Errorf("line %d: %w – naïve", n, err)
	}
	for i, line := range strings.Split(text, "\n") {
		out = append(out, fmt.Sprintf("%4d\t%s", i+1, strings.TrimRight(line, " \t")))
	}
`

func callAndResult(n int) []message {
	id := fmt.Sprintf("call_%06d", n)
	call := toolCall{ID: id, Type: "function"}
	call.Function.Name = "read_file"
	call.Function.Arguments = string(encode(map[string]any{"path": fmt.Sprintf("pkg/module_%d/file.go", n), "pattern": `\bfunc "x"`, "limit": 200}))
	return []message{
		{Role: "assistant", ToolCalls: []toolCall{call}},
		{Role: "tool", CallID: id, Content: strings.Repeat(code, 4)},
	}
}

func tools() []any {
	var out []any
	for _, name := range []string{"read_file", "write_file", "edit_file", "run_command", "search", "list_files"} {
		out = append(out, map[string]any{"type": "function", "function": map[string]any{
			"name":        name,
			"description": "Works on files below the project's folder.\nPaths are relative; \"..\" is refused. Output beyond 2,000 lines is cut.",
			"parameters": map[string]any{
				"type": "object", "required": []string{"path"}, "additionalProperties": false,
				"properties": map[string]any{
					"path":    map[string]string{"type": "string", "description": "Path of the file, relative to the project"},
					"pattern": map[string]string{"type": "string", "description": "A regular expression such as \"^func\\s\""},
					"limit":   map[string]any{"type": "integer", "minimum": 1, "maximum": 2000},
				},
			},
		}})
	}
	return out
}
