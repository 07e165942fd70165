package load

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Turn is what one request measured at the client.
type Turn struct {
	Session string
	N       int // 1 is the session's first turn
	Began   time.Time
	// TTFB is the time to the first byte of the answer's body, TTFT to the
	// first event with text, Total to the end of the stream.
	TTFB, TTFT, Total time.Duration
	PromptTokens      int
	CachedTokens      int // -1: the engine did not say
	OutputTokens      int
	// Replica and Reason come from warden's response headers; empty elsewhere.
	Replica, Reason string
	// Stayed: the same replica as the session's previous turn.
	Stayed bool
	Err    error
	text   string
}

// ask sends the conversation and reads the streamed answer.
func (s *session) ask(ctx context.Context, n int) Turn {
	t := Turn{Session: s.id, N: n, Began: time.Now(), CachedTokens: -1}
	t.Err = s.send(ctx, &t)
	t.Total = time.Since(t.Began)
	t.Stayed = n > 1 && t.Replica == s.replica
	s.replica = t.Replica
	return t
}

func (s *session) send(ctx context.Context, t *Turn) error {
	path, body := s.body()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.o.URL+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.id != "" {
		req.Header.Set("X-Session-ID", s.id)
	}
	req.Header.Set("User-Agent", "warden-bench")
	if s.o.API == "messages" {
		req.Header.Set("Anthropic-Version", "2023-06-01")
	}
	if s.o.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+s.o.APIKey)
	}
	resp, err := s.o.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	t.Replica, t.Reason = resp.Header.Get("X-Warden-Replica"), resp.Header.Get("X-Warden-Reason")
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("%s: %s", resp.Status, strings.TrimSpace(string(text)))
	}
	return t.readStream(resp.Body)
}

func (s *session) body() (path string, body []byte) {
	request := map[string]any{
		"model": s.o.Model, "stream": true, "max_tokens": s.o.Shape.MaxOutput,
	}
	if s.o.IgnoreEOS {
		request["ignore_eos"] = true
	}
	if s.o.API == "messages" {
		path = "/v1/messages"
		request["messages"] = s.history
		if s.system != "" {
			request["system"] = s.system
		}
	} else {
		path = "/v1/chat/completions"
		request["messages"] = s.history
		if s.system != "" {
			request["messages"] = append([]message{{"system", s.system}}, s.history...)
		}
		request["stream_options"] = map[string]bool{"include_usage": true}
	}
	body, err := json.Marshal(request)
	if err != nil {
		panic("load: a map of strings and numbers always marshals: " + err.Error())
	}
	return path, body
}

// maxEvent bounds one line of the stream, in bytes.
const maxEvent = 4 << 20

// readStream follows the event stream of either API. A stream without the
// API's own end is an error: the answer was cut.
func (t *Turn) readStream(r io.Reader) error {
	var text strings.Builder
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 16<<10), maxEvent)
	ended := false
	for lines.Scan() {
		if t.TTFB == 0 {
			t.TTFB = time.Since(t.Began)
		}
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			ended = true
			continue
		}
		event := gjson.ParseBytes(data)
		if e := event.Get("error"); e.Exists() && e.Type != gjson.Null {
			return fmt.Errorf("in the stream: %s", e.Get("message").String())
		}
		ended = ended || event.Get("type").String() == "message_stop"
		delta := event.Get("choices.0.delta.content").String() + event.Get("delta.text").String()
		if delta != "" && t.TTFT == 0 {
			t.TTFT = time.Since(t.Began)
		}
		text.WriteString(delta)
		t.readUsage(event)
	}
	t.text = text.String()
	if err := lines.Err(); err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("the stream ended early after %d characters", text.Len())
	}
	return nil
}

func (t *Turn) readUsage(event gjson.Result) {
	if u := event.Get("usage"); u.IsObject() {
		if v := u.Get("prompt_tokens"); v.Exists() { // OpenAI: the whole prompt
			t.PromptTokens = int(v.Int())
		}
		if v := u.Get("prompt_tokens_details.cached_tokens"); v.Exists() {
			t.CachedTokens = int(v.Int())
		}
		if v := u.Get("completion_tokens"); v.Exists() {
			t.OutputTokens = int(v.Int())
		}
		if v := u.Get("output_tokens"); v.Exists() {
			t.OutputTokens = int(v.Int())
		}
		if v := u.Get("cache_read_input_tokens"); v.Exists() { // Anthropic: input_tokens excludes the cached part
			t.CachedTokens = int(v.Int())
			t.PromptTokens = int(u.Get("input_tokens").Int() + v.Int() + u.Get("cache_creation_input_tokens").Int())
		}
	}
}
