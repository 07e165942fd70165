// Package figures counts what one replica has done: requests, errors, tokens
// and times to the first token, in total and over the recent past. It reads no
// clock and has no lock: every call is told the time, and the owner serialises.
package figures

import (
	"time"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/window"
)

// Recently is the span of every quantile and share, unless it says otherwise.
const Recently = 60 * time.Second

// rateSpan is that of rates: short enough to follow a burst.
const rateSpan = 10 * time.Second

// Fields of the windows.
const (
	cachedTokens = iota
	computedTokens
	outputTokens
	requestCount
)

// Replica is the figures of one replica; they survive restarts of its process.
// Make one with New.
type Replica struct {
	requests, errors uint64
	cached, computed uint64 // prompt tokens
	output           uint64
	recent           *window.Sums      // 60 s by the second
	hour             *window.Sums      // 60 min by the minute
	ttft             *window.Durations // 60 s by 5 s
}

// New returns figures that begin at since.
func New(since time.Time) *Replica {
	return &Replica{
		recent: window.NewSums(since, time.Second, 60),
		hour:   window.NewSums(since, time.Minute, 60),
		ttft:   window.NewDurations(since, 5*time.Second, 12),
	}
}

// Ended books a request that ended at now on the replica.
func (r *Replica) Ended(now time.Time, failed bool) {
	r.requests++
	r.recent.Add(now, requestCount, 1)
	if failed {
		r.errors++
	}
}

// FirstToken books the time to the first token of a stream, which came at now.
func (r *Replica) FirstToken(now time.Time, took time.Duration) { r.ttft.Add(now, took) }

// Used books the tokens of an answer; estimate is the prompt's where the engine
// did not measure it. What an engine did not say was cached counts as computed:
// a claim of hits needs a measurement.
func (r *Replica) Used(now time.Time, u dialect.Usage, estimate int) {
	prompt := u.PromptTokens
	if prompt < 0 {
		prompt = estimate
	}
	cached := min(max(u.CachedTokens, 0), prompt)
	output := max(u.OutputTokens, 0)
	r.cached += uint64(cached)
	r.computed += uint64(prompt - cached)
	r.output += uint64(output)
	for _, w := range []*window.Sums{r.recent, r.hour} {
		w.Add(now, cachedTokens, float64(cached))
		w.Add(now, computedTokens, float64(prompt-cached))
		w.Add(now, outputTokens, float64(output))
	}
}

// Requests that ended on the replica and, of those, failed.
func (r *Replica) Requests() (ended, failed uint64) { return r.requests, r.errors }

// RequestRate is the requests per second that ended in the last 10 s.
func (r *Replica) RequestRate(now time.Time) float64 {
	return r.recent.Rate(now, rateSpan, requestCount)
}

// TTFT is the times to the first token in the last 60 s.
func (r *Replica) TTFT(now time.Time) window.Histogram { return r.ttft.Over(now, Recently) }

// Tokens are prompt and output tokens as the engines measured them; prompt
// tokens of unmeasured requests count as computed.
type Tokens struct {
	CachedTotal, ComputedTotal, OutputTotal uint64
	// Per second over the last 10 s.
	CachedRate, ComputedRate, OutputRate float64
	// Cached part of the prompt tokens over the last 60 s and hour, 0 to 1;
	// negative when there were none.
	CachedShareMinute, CachedShareHour float64
}

// Tokens returns the token figures at now.
func (r *Replica) Tokens(now time.Time) Tokens {
	return Tokens{
		CachedTotal: r.cached, ComputedTotal: r.computed, OutputTotal: r.output,
		CachedRate:        r.recent.Rate(now, rateSpan, cachedTokens),
		ComputedRate:      r.recent.Rate(now, rateSpan, computedTokens),
		OutputRate:        r.recent.Rate(now, rateSpan, outputTokens),
		CachedShareMinute: cachedShare(r.recent, now, Recently),
		CachedShareHour:   cachedShare(r.hour, now, time.Hour),
	}
}

func cachedShare(w *window.Sums, now time.Time, span time.Duration) float64 {
	cached, computed := w.Total(now, span, cachedTokens), w.Total(now, span, computedTokens)
	if cached+computed == 0 {
		return -1
	}
	return cached / (cached + computed)
}

// Quantiles of the last 60 s; Count 0 means that there were none.
type Quantiles struct {
	Count         uint64
	P50, P95, P99 time.Duration
}

// QuantilesOf reads them off a histogram.
func QuantilesOf(h *window.Histogram) Quantiles {
	q := Quantiles{Count: h.Count()}
	q.P50, _ = h.Quantile(0.50)
	q.P95, _ = h.Quantile(0.95)
	q.P99, _ = h.Quantile(0.99)
	return q
}
