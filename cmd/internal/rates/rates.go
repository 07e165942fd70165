// Package rates turns the engines' counters, read once a second, into rates
// over the last minute.
package rates

import (
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// Span is how far back the rates look.
const Span = 60 * time.Second

// MaxAge is the age from which a reading no longer speaks for the present:
// three scrapes of one second each.
const MaxAge = 3 * time.Second

// Window keeps the readings of one replica's engine. The zero value is ready;
// its methods are not safe for concurrent use.
type Window struct {
	generation uint64
	readings   []supervisor.EngineStats
}

// Rates are per second over the window, from the first to the last reading.
type Rates struct {
	Prefill     float64 // prompt tokens computed per second, cached ones left out
	Decode      float64 // tokens generated per second
	Preemptions uint64  // in the window
	// Hits and Queries are tokens found and looked up in the prefix cache, the
	// host tier included, in the window.
	Hits, Queries uint64
	// HostHits and HostQueries are the same of the host tier alone: what the
	// GPU's own cache did not have is looked for there.
	HostHits, HostQueries uint64
}

// HostHitRate is the share of tokens looked up in the host tier that were there,
// 0 to 1; ok is false without queries.
func (r Rates) HostHitRate() (share float64, ok bool) {
	if r.HostQueries == 0 {
		return 0, false
	}
	return float64(r.HostHits) / float64(r.HostQueries), true
}

// HitRate is the share of queried tokens that were cached, 0 to 1; ok is false
// without queries.
func (r Rates) HitRate() (share float64, ok bool) {
	if r.Queries == 0 {
		return 0, false
	}
	return float64(r.Hits) / float64(r.Queries), true
}

// Add stores a reading. A new generation, or a counter that went back, begins
// anew: the engine's counters start at zero.
func (w *Window) Add(generation uint64, s supervisor.EngineStats) {
	if s.At.IsZero() {
		return
	}
	if n := len(w.readings); n > 0 {
		last := w.readings[n-1]
		if !s.At.After(last.At) {
			return
		}
		if generation != w.generation || s.PromptTokens < last.PromptTokens || s.PrefixQueries < last.PrefixQueries {
			w.readings = w.readings[:0]
		}
	}
	w.generation = generation
	w.readings = append(w.readings, s)
	for len(w.readings) > 2 && s.At.Sub(w.readings[0].At) > Span {
		w.readings = w.readings[1:]
	}
}

// Over returns the rates; ok is false before two readings.
func (w *Window) Over() (r Rates, ok bool) {
	if len(w.readings) < 2 {
		return Rates{}, false
	}
	first, last := w.readings[0], w.readings[len(w.readings)-1]
	seconds := last.At.Sub(first.At).Seconds()
	r = Rates{
		Preemptions: last.Preemptions - first.Preemptions,
		Hits:        last.PrefixHits - first.PrefixHits + last.ExternalHits - first.ExternalHits,
		Queries:     last.PrefixQueries - first.PrefixQueries,
		HostHits:    last.ExternalHits - first.ExternalHits,
		HostQueries: last.ExternalQueries - first.ExternalQueries,
		Decode:      float64(last.GenerationTokens-first.GenerationTokens) / seconds,
	}
	// Hits are counted at admission and prompt tokens at the first token, so a
	// short window may hold more hits than prompt tokens.
	if prompt := last.PromptTokens - first.PromptTokens; prompt > r.Hits {
		r.Prefill = float64(prompt-r.Hits) / seconds
	}
	return r, true
}
