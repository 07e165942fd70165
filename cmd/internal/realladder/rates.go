package realladder

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

// Rates are what this machine's engines cost, in seconds, fitted to
// measurements on all engines at once: they share the machine's memory and
// caches, as they will under load.
type Rates struct {
	// A cold prompt of n tokens takes Prefill[0] + Prefill[1]·n + Prefill[2]·n².
	Prefill [3]float64 `json:"prefill_seconds"`
	// A decode step of k requests with c tokens of context in all takes
	// Decode[0] + Decode[1]·k + Decode[2]·c.
	Decode [3]float64 `json:"decode_step_seconds"`
	// Cached is what each token of a prompt takes that the prefix cache has: it is
	// not computed, but goes through the template, the tokenizer and the block
	// hashes. 0: not measured.
	Cached float64 `json:"cached_token_seconds,omitempty"`
	// Loads are the sessions of the cells that were measured in the same run; none:
	// those of the whole report.
	Loads []int `json:"loads,omitempty"`
	// Error is the largest relative error of the fits.
	Error float64 `json:"largest_relative_error"`
}

// What is measured: lengths of cold prompts; those of prompts that come back with
// nextTokens more, as turns of a conversation do; batches and their contexts, which
// together fit the KV cache.
var (
	prefillLengths = []int{200, 800, 1600, 2400, 3600}
	cachedLengths  = []int{800, 1600, 2400, 3200}
	decodeBatches  = []batch{{1, 500}, {1, 2500}, {2, 1500}, {3, 700}, {3, 2700}}
)

// batch is requests that are decoded together, each with a prompt of so many
// tokens.
type batch struct{ requests, context int }

// whole is the batch's context in the middle of its decoding, in tokens.
func (b batch) whole() float64 {
	return float64(b.requests * (b.context + aroundPrompt + decodeTokens/2))
}

const (
	measurements = 3 // of each point; the median counts
	decodeTokens = 48
	nextTokens   = 160
	blockTokens  = 32 // of the KV cache, see tiny.HeavyArgs
)

// aroundPrompt is what the chat template adds to a prompt, in tokens.
var aroundPrompt = tiny.MessageTokens("user") + tiny.PromptTokens

// measureRates finds out what the engines cost.
func measureRates(ctx context.Context, client *http.Client, engines []string) (Rates, error) {
	m := &meter{client: client, engines: engines, rng: rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))}
	var prefill, decode fit
	for _, n := range prefillLengths {
		seconds, err := m.median(ctx, m.prompts(1, n), 1)
		if err != nil {
			return Rates{}, err
		}
		prefill.add(seconds, prefillTerms(n+aroundPrompt, 0)...)
	}
	for _, n := range cachedLengths {
		seconds, err := m.resumed(ctx, n)
		if err != nil {
			return Rates{}, err
		}
		prefill.add(seconds, prefillTerms(n+nextTokens+aroundPrompt, n/blockTokens*blockTokens)...)
	}
	for _, b := range decodeBatches {
		seconds, err := m.median(ctx, m.prompts(b.requests, b.context), decodeTokens)
		if err != nil {
			return Rates{}, err
		}
		decode.add(seconds, 1, float64(b.requests), b.whole())
	}
	var r Rates
	r.Cached = prefill.solve()[len(r.Prefill)]
	copy(r.Prefill[:], prefill.factors)
	copy(r.Decode[:], decode.solve())
	r.Error = max(prefill.worst(), decode.worst())
	return r, nil
}

// prefillTerms are what Prefill and Cached are the factors of when so many of a
// prompt's n tokens are cached.
func prefillTerms(n, cached int) []float64 {
	whole, known := float64(n), float64(cached)
	return []float64{1, whole - known, whole*whole - known*known, known}
}

// meter measures all engines at the same time.
type meter struct {
	client  *http.Client
	engines []string
	rng     *rand.Rand
}

// prompts returns a maker of n prompts that no cache knows.
func (m *meter) prompts(n, length int) func() []string {
	return func() []string {
		out := make([]string, n)
		for i := range out {
			var b strings.Builder
			for b.Len() < length {
				fmt.Fprintf(&b, "%x ", m.rng.Uint64())
			}
			out[i] = b.String()[:length]
		}
		return out
	}
}

// median is that of several measurements: of one token the time until it comes,
// of more the time between two of them. In seconds.
func (m *meter) median(ctx context.Context, prompts func() []string, tokens int) (float64, error) {
	var all []float64
	for range measurements {
		seconds, err := m.once(ctx, prompts, tokens)
		if err != nil {
			return 0, err
		}
		all = append(all, seconds...)
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// resumed is the time until the first token of prompts of which the engine has so
// many tokens in its cache, and nextTokens not. In seconds.
func (m *meter) resumed(ctx context.Context, cached int) (float64, error) {
	var all []float64
	for range measurements {
		var first, next []string
		for range m.engines {
			first = append(first, m.prompts(1, cached)()...)
			next = append(next, first[len(first)-1]+m.prompts(1, nextTokens)()[0])
		}
		for _, prompts := range [][]string{first, next} {
			seconds, err := m.once(ctx, inTurn(prompts), 1)
			if err != nil {
				return 0, err
			}
			if &prompts[0] == &next[0] {
				all = append(all, seconds...)
			}
		}
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}

// inTurn makes one prompt after the other, for one engine after the other.
func inTurn(prompts []string) func() []string {
	return func() []string {
		first := prompts[:1]
		prompts = prompts[1:]
		return first
	}
}

func (m *meter) once(ctx context.Context, prompts func() []string, tokens int) ([]float64, error) {
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		times []float64
		first error
	)
	for _, engine := range m.engines {
		for _, prompt := range prompts() {
			wg.Go(func() {
				arrivals, err := m.stream(ctx, engine, prompt, tokens)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err != nil:
					first = err
				case tokens == 1:
					times = append(times, arrivals[0].Seconds())
				default:
					for i := range arrivals[1:] {
						times = append(times, (arrivals[i+1] - arrivals[i]).Seconds())
					}
				}
			})
		}
	}
	wg.Wait()
	return times, first
}

// stream asks for tokens, as the load does, and returns when each came, from the
// request on. What vLLM sends before the first of them comes along with it.
func (m *meter) stream(ctx context.Context, engine, prompt string, tokens int) ([]time.Duration, error) {
	body, err := json.Marshal(map[string]any{
		"model": model, "messages": []any{map[string]string{"role": "user", "content": prompt}}, "max_tokens": tokens, "stream": true,
		"allowed_token_ids": []int{answerToken}, "ignore_eos": true,
	})
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, engine+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := m.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, fmt.Errorf("%s: %s: %s", engine, resp.Status, text)
	}
	var arrivals []time.Duration
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && string(data) != "[DONE]" {
			arrivals = append(arrivals, time.Since(began))
		}
	}
	if len(arrivals) == 0 {
		return nil, fmt.Errorf("%s sent no token: %w", engine, cmp.Or(lines.Err(), io.ErrUnexpectedEOF))
	}
	return arrivals, nil
}

// cost is the rates in the simulated engine's terms. What a step costs besides
// its tokens cannot be told from what a request costs besides its steps: the
// profile of this machine says how much the former is. The latter holds up the
// engine: its frontend has no core of its own.
func (r Rates) cost() (core.Cost, error) {
	profile, err := core.FindProfile(simulatedProfile)
	if err != nil {
		return core.Cost{}, err
	}
	nanoseconds := func(seconds float64) float64 { return seconds * 1e9 }
	duration := func(seconds float64) time.Duration { return time.Duration(nanoseconds(seconds)) }
	step := r.step()
	base := min(profile.Cost.Base, duration(r.Prefill[0]), duration(step[0]))
	return core.Cost{
		Base: base, Floor: duration(step[0]) - base,
		Admission: duration(r.Prefill[0]) - base, CachedToken: nanoseconds(r.Cached),
		PerToken:       nanoseconds(r.Prefill[1]),
		PrefillContext: 2 * nanoseconds(r.Prefill[2]), // a prompt's mean context is half of it
		DecodeContext:  nanoseconds(step[1]),
	}, nil
}

// step is Decode without its term for k, which core.Cost has not: a step takes
// step[0] + step[1]·c. It is the best fit to what Decode says of the batches that
// were measured, as good as one to the measurements themselves.
func (r Rates) step() []float64 {
	var f fit
	for _, b := range decodeBatches {
		f.add(r.Decode[0]+r.Decode[1]*float64(b.requests)+r.Decode[2]*b.whole(), 1, b.whole())
	}
	return f.solve()
}

// mean averages measurements of one machine, what few of them know over those; the
// error is the largest.
func mean(all []Rates) Rates {
	var m Rates
	n, known := float64(len(all)), 0.0
	for _, r := range all {
		if r.Cached > 0 {
			known++
			m.Cached += (r.Cached - m.Cached) / known
		}
		for i := range m.Prefill {
			m.Prefill[i] += r.Prefill[i] / n
			m.Decode[i] += r.Decode[i] / n
		}
		m.Error = max(m.Error, r.Error)
	}
	return m
}

// prefillModel and decodeModel are the rates as vllm-router's program
// scheduling takes them.
func (r Rates) prefillModel() map[string]float64 {
	return map[string]float64{
		"intercept_seconds":                       r.Prefill[0],
		"linear_seconds_per_1k_tokens":            1e3 * r.Prefill[1],
		"quadratic_seconds_per_1k_tokens_squared": 1e6 * r.Prefill[2],
	}
}

func (r Rates) decodeModel() map[string]float64 {
	return map[string]float64{
		"fixed_step_seconds":             r.Decode[0],
		"batch_step_seconds_per_request": r.Decode[1],
		"context_step_seconds_per_token": r.Decode[2],
	}
}
