// Package metrics names and counts what Prometheus is told about the data path.
// Set counts what happens; now.go sends what the router reads from its state at
// each scrape.
//
// Labels have few values whatever clients send: model and replica are names
// from the configuration, reason, cause, kind and result one of a few words,
// code an HTTP status. No session, key, path or model name of a client is one.
package metrics

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

// statusClientLeft is what nginx and Caddy count a client as that left before
// any answer was sent.
const statusClientLeft = 499

// Why an attempt failed before the client saw anything.
const (
	RetryConnection = "connection"  // it could not be made, or broke
	RetryEngineFull = "engine_full" // the engine said that it takes no more
	RetryOwnLimit   = "own_limit"   // warden itself had no descriptors, memory or the like; not retried
)

// The results of a look into a prefix cache.
const (
	hit  = "hit"
	miss = "miss"
)

// breakCauses are why a prefix may stop matching.
var breakCauses = []identity.Cause{
	identity.CauseSystemNumbers, identity.CauseSystemPaths, identity.CauseSystemText, identity.CauseTools, identity.CauseCompaction,
	identity.CauseHistory, identity.CauseSystemTurns, identity.CauseBilling, identity.CauseReasoning, identity.CauseEngine,
}

// The buckets of latencies are vLLM's own, so that both histograms overlay
// (vllm/v1/metrics/buckets.py).
var (
	firstTokenBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	perTokenBuckets   = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	// Most turns wait for microseconds; the others for seconds, until a place
	// is free or they are refused.
	waitBuckets = []float64{0.001, 0.01, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320}
)

// Set is what is counted as it happens.
type Set struct {
	requests, failed, aborted        *prometheus.CounterVec
	ttfb, ttft, tpot                 *prometheus.HistogramVec
	placing                          prometheus.Histogram
	waited                           *prometheus.HistogramVec
	places, retries, breaks          *prometheus.CounterVec
	prefix, output                   *prometheus.CounterVec
	current                          []*prometheus.Desc // what Now sends
	inFlight, sessions, spillLimit   *prometheus.Desc
	tokens, capacity                 *prometheus.Desc
	waiting, known, seen, affinityOn *prometheus.Desc
	homesLost                        *prometheus.Desc
}

// New returns a Set that has counted nothing.
func New() *Set {
	m := &Set{placing: prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "warden_placement_duration_seconds", Help: "Time to decide where a turn goes.",
		Buckets: prometheus.ExponentialBuckets(1e-6, 2.5, 11),
	})}
	m.counters()
	m.latencies()
	m.descriptions()
	return m
}

func (m *Set) counters() {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m.requests = counter("warden_requests_total", "Requests ended, by the status sent; 499 is a client that left before any. "+
		"Those refused before their model was known have neither model nor replica.", "model", "replica", "code")
	m.failed = counter("warden_requests_failed_total", "Requests that got no place, a 5xx, or only a part of their answer.", "model", "replica")
	m.aborted = counter("warden_requests_aborted_total", "Requests whose client left before the end of the answer, or stalled: was there and did not read.", "model", "replica", "cause")
	m.places = counter("warden_placements_total", "Turns placed, by reason.", "model", "replica", "reason")
	m.prefix = counter("warden_prefix_tokens_total", "Prompt tokens as the engines measured them: hit was cached, miss was computed.",
		"model", "reason", "result")
	m.output = counter("warden_output_tokens_total", "Tokens generated, as the engines measured them.", "model", "replica")
	m.retries = counter("warden_retries_total", "Attempts that failed before the client saw anything, by cause.", "model", "cause")
	m.breaks = counter("warden_prefix_breaks_total", "Conversations whose cached prefix stopped matching, by cause.", "model", "cause")
}

func (m *Set) latencies() {
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	m.ttfb = histogram("warden_time_to_first_byte_seconds", "Time from the request to the first byte of its answer.",
		firstTokenBuckets, "model", "reason")
	m.ttft = histogram("warden_time_to_first_token_seconds", "Time from the request to the first token of a streamed answer.",
		firstTokenBuckets, "model", "reason")
	m.tpot = histogram("warden_time_per_output_token_seconds", "Mean time between the tokens of a streamed answer.",
		perTokenBuckets, "model")
	m.waited = histogram("warden_placement_wait_seconds", "Time that a placed turn waited for its place.", waitBuckets, "model")
}

// Model makes the series of a model begin at zero: a rate over the first
// failure needs a value before it.
func (m *Set) Model(model string) {
	for _, cause := range []string{RetryConnection, RetryEngineFull, RetryOwnLimit} {
		m.retries.WithLabelValues(model, cause)
	}
	for _, cause := range breakCauses {
		m.breaks.WithLabelValues(model, string(cause))
	}
	m.failed.WithLabelValues(model, "")
	m.waited.WithLabelValues(model)
	m.tpot.WithLabelValues(model)
}

// Replica does the same for one replica.
func (m *Set) Replica(model string, id placement.ReplicaID) {
	for _, c := range []*prometheus.CounterVec{m.failed, m.output} {
		c.WithLabelValues(model, string(id))
	}
	for _, cause := range []string{left, stalled} {
		m.aborted.WithLabelValues(model, string(id), cause)
	}
}

// Causes of an answer that its client did not take.
const (
	left    = "left"
	stalled = "stalled"
)

// Placed counts one placement and the time that the turn waited for it.
func (m *Set) Placed(model string, id placement.ReplicaID, reason placement.Reason, waited time.Duration) {
	m.places.WithLabelValues(model, string(id), string(reason)).Inc()
	m.waited.WithLabelValues(model).Observe(waited.Seconds())
}

// Retried counts one failed attempt; cause is one of those above.
func (m *Set) Retried(model, cause string) { m.retries.WithLabelValues(model, cause).Inc() }

// Decided counts the time that one placement took to decide.
func (m *Set) Decided(took time.Duration) { m.placing.Observe(took.Seconds()) }

// Broke counts one conversation whose cached prefix stopped matching.
func (m *Set) Broke(model string, cause identity.Cause) {
	m.breaks.WithLabelValues(model, string(cause)).Inc()
}

// Refused counts one request that was refused before it reached placement.
func (m *Set) Refused(status int) { m.requests.WithLabelValues("", "", strconv.Itoa(status)).Inc() }

// Finished counts one request that reached placement.
func (m *Set) Finished(rec *record.Record) {
	code := rec.Status
	if code == 0 {
		code = statusClientLeft
	}
	replica, reason := string(rec.Replica), string(rec.Reason)
	m.requests.WithLabelValues(rec.Model, replica, strconv.Itoa(code)).Inc()
	switch {
	case rec.Aborted:
		cause := left
		if rec.Stalled {
			cause = stalled
		}
		m.aborted.WithLabelValues(rec.Model, replica, cause).Inc()
	case rec.Failed || rec.Status >= 500:
		m.failed.WithLabelValues(rec.Model, replica).Inc()
	}
	m.timed(rec, reason)
	m.measured(rec, replica, reason)
}

func (m *Set) timed(rec *record.Record, reason string) {
	if !rec.FirstByte.IsZero() {
		m.ttfb.WithLabelValues(rec.Model, reason).Observe(rec.FirstByte.Sub(rec.Arrived).Seconds())
	}
	if !rec.Stream || rec.FirstToken.IsZero() {
		return
	}
	m.ttft.WithLabelValues(rec.Model, reason).Observe(rec.FirstToken.Sub(rec.Arrived).Seconds())
	if n := rec.Usage.OutputTokens; n > 1 && !rec.Aborted && !rec.Failed {
		m.tpot.WithLabelValues(rec.Model).Observe(rec.Ended.Sub(rec.FirstToken).Seconds() / float64(n-1))
	}
}

func (m *Set) measured(rec *record.Record, replica, reason string) {
	u := rec.Usage
	if u.PromptTokens > 0 {
		cached := min(max(u.CachedTokens, 0), u.PromptTokens)
		m.prefix.WithLabelValues(rec.Model, reason, hit).Add(float64(cached))
		m.prefix.WithLabelValues(rec.Model, reason, miss).Add(float64(u.PromptTokens - cached))
	}
	if u.OutputTokens > 0 {
		m.output.WithLabelValues(rec.Model, replica).Add(float64(u.OutputTokens))
	}
}

func (m *Set) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.requests, m.failed, m.aborted, m.ttfb, m.ttft, m.tpot, m.placing, m.waited, m.places, m.retries, m.breaks, m.prefix, m.output,
	}
}

// Describe is half of a prometheus.Collector; the router is the other.
func (m *Set) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	for _, d := range m.current {
		to <- d
	}
}

// Counted sends what was counted.
func (m *Set) Counted(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
}
