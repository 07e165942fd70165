package ladder

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// talk is one conversation over HTTP: the same script as in Play, in words
// instead of tokens.
type talk struct {
	run     *routed
	slot    int
	name    string // its session id
	script  *script
	prompt  int    // tokens so far
	request []byte // JSON up to the last message said
	served  placement.ReplicaID
	ideal   time.Duration
}

// converse plays one conversation after the other until ctx ends.
func (p *routed) converse(ctx context.Context, slot int, delay time.Duration) error {
	if !pause(ctx, delay) {
		return nil
	}
	for {
		p.mu.Lock()
		n := p.drawn
		p.drawn++
		p.mu.Unlock()
		c := &talk{run: p, slot: slot, name: fmt.Sprintf("conversation-%d", n), script: p.Work.draw(p.Seed, n)}
		began := time.Now()
		c.begin()
		for turn := range c.script.turns {
			if err := c.take(ctx, turn); err != nil {
				return err
			}
		}
		p.mu.Lock()
		p.log.session(sessionRecord{slot, time.Since(began), c.ideal}, time.Now())
		p.mu.Unlock()
	}
}

// begin says the system prompt.
func (c *talk) begin() {
	c.request = fmt.Appendf(nil, `{"model":%q,"stream":true,"max_tokens":%d,"messages":[`, routedModel, c.run.Work.OutputMax)
	c.prompt = len(c.script.system)
	// All conversations share it, so its words are of one length.
	c.say("system", words(mainRoot, c.prompt-templateTokens("system"), 1))
}

func (c *talk) say(role, text string) {
	if c.request[len(c.request)-1] == '}' {
		c.request = append(c.request, ',')
	}
	c.request = fmt.Appendf(c.request, `{"role":%q,"content":%q}`, role, text)
}

// take plays one turn: the message, the wait for the answer, the pause.
func (c *talk) take(ctx context.Context, turn int) error {
	t := c.script.turns[turn]
	order := fmt.Sprintf(" [[sim:tokens %d]]", t.answer)
	own := t.message - len(tokensOf(order)) - templateTokens("user") - templateTokens("assistant")
	c.say("user", words(c.script.seed+uint64(turn), max(own, 1), c.script.noise)+order)
	began := time.Now()
	rec, answer, first, err := c.ask(ctx, turn)
	if err != nil {
		return err
	}
	c.note(turn, rec, began, first)
	c.say("assistant", answer)
	if t.gap > 0 && !pause(ctx, t.gap) {
		return ctx.Err()
	}
	return nil
}

// ask sends what has been said until it is answered, and returns the router's
// record of it, the answer and when it began.
func (c *talk) ask(ctx context.Context, turn int) (rec router.Record, answer string, first time.Time, err error) {
	body := append(c.request[:len(c.request):len(c.request)], "]}"...)
	for try := 0; ; try++ {
		id := fmt.Sprintf("%s-%d-%d", c.name, turn, try)
		resp, err := c.send(ctx, id, body)
		if err == nil && resp.StatusCode == http.StatusTooManyRequests {
			if err = c.refused(ctx, resp); err == nil {
				continue
			}
		}
		if err != nil {
			return rec, "", first, err
		}
		if answer, first, err = listen(resp); err != nil {
			return rec, "", first, err
		}
		rec, err = c.run.record(id)
		return rec, answer, first, err
	}
}

// refused waits as long as the router has told.
func (c *talk) refused(ctx context.Context, resp *http.Response) error {
	after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	_ = resp.Body.Close()
	if err != nil {
		return fmt.Errorf("a refusal without the seconds to wait: %w", err)
	}
	c.run.mu.Lock()
	c.run.log.rejected++
	c.run.mu.Unlock()
	if !pause(ctx, time.Duration(after)*time.Second) {
		return ctx.Err()
	}
	return nil
}

func (c *talk) send(ctx context.Context, id string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", id)
	req.Header.Set("X-Session-Id", c.name)
	return c.run.client.Do(req)
}

// record returns the router's record of a request whose answer has ended.
func (p *routed) record(id string) (router.Record, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	rec, ok := p.records[id]
	delete(p.records, id)
	if !ok || rec.Failed || rec.Usage.CachedTokens < 0 {
		return rec, fmt.Errorf("request %s ended without the engine's token counts: %+v", id, rec)
	}
	return rec, nil
}

// listen reads a stream to its end, the text and the time of its first event.
func listen(resp *http.Response) (text string, first time.Time, err error) {
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
		return "", first, fmt.Errorf("%s: %s", resp.Status, body)
	}
	var said strings.Builder
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || data[0] != '{' {
			continue
		}
		if first.IsZero() {
			first = time.Now()
		}
		var event struct {
			Choices []struct {
				Delta struct {
					Content string `json:"content"`
				} `json:"delta"`
			} `json:"choices"`
		}
		if err := json.Unmarshal(data, &event); err != nil {
			return "", first, fmt.Errorf("event %s: %w", data, err)
		}
		for _, choice := range event.Choices {
			said.WriteString(choice.Delta.Content)
		}
	}
	return said.String(), first, lines.Err()
}

// note records a turn that has been answered.
func (c *talk) note(turn int, rec router.Record, began, first time.Time) {
	t, now := c.script.turns[turn], time.Now()
	asked := rec.Usage.PromptTokens
	known := asked - t.message // all but the new message: an endless cache has it
	if turn == 0 {
		known = len(c.script.system)
	}
	cfg := c.run.engines[0].server.Config()
	c.ideal += idealTurn(cfg, known, asked, rec.Usage.OutputTokens) + t.gap
	c.run.mu.Lock()
	defer c.run.mu.Unlock()
	c.run.log.turn(turnRecord{
		slot: c.slot, turn: turn,
		ttfb: first.Sub(began), routerWait: rec.Placed.Sub(rec.Arrived), decode: now.Sub(first), gap: t.gap,
		prompt: asked, output: rec.Usage.OutputTokens, cached: rec.Usage.CachedTokens, ideal: known,
		engine: rec.Replica, moved: c.served != "" && c.served != rec.Replica,
	}, now)
	c.served = rec.Replica
}

func tokensOf(text string) []core.Token { return prompt.Words.Append(nil, text) }

// templateTokens is what the chat template adds to a message of that role. The
// end of an answer is counted as part of the answer.
func templateTokens(role string) int {
	message := prompt.Conversation{Messages: []prompt.Message{{Role: role}}}
	n := len(prompt.Render(prompt.Words, message)) - len(prompt.Render(prompt.Words, prompt.Conversation{}))
	if role == "assistant" {
		n--
	}
	return n
}

// words is a text of exactly n tokens that no other seed gives, with spread
// times four characters a token on average.
func words(seed uint64, n int, spread float64) string {
	const letters = "abcdefghijklmnopqrstuvwxyz234567"
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	extra := 1.0
	if spread < 1 {
		extra = -1
	}
	var b strings.Builder
	for range n {
		length := 4.0
		if rng.Float64() < extra*4*(spread-1) {
			length += extra
		}
		word, bits := []byte{' '}, rng.Uint64()
		for len(word) < int(length) {
			word = append(word, letters[bits%32])
			bits /= 32
		}
		b.Write(word)
	}
	return b.String()
}
