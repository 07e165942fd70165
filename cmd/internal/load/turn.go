package load

import (
	"bufio"
	"bytes"
	"context"
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

// StatusError is an answer that refuses.
type StatusError struct {
	Code int
	Text string
}

func (e *StatusError) Error() string { return e.Text }

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
	if s.o.API == Messages {
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
		return &StatusError{Code: resp.StatusCode, Text: resp.Status + ": " + strings.TrimSpace(string(text))}
	}
	return t.readStream(resp.Body)
}

// maxEvent bounds one line of the stream, in bytes.
const maxEvent = 4 << 20

// readStream follows the event stream of any API. A stream without the
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
		p := pieceOf(event)
		if p.err != nil {
			return p.err
		}
		ended = ended || p.ended
		if p.text != "" && t.TTFT == 0 {
			t.TTFT = time.Since(t.Began)
		}
		text.WriteString(p.text)
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
