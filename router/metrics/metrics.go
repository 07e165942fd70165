// Package metrics names and counts what Prometheus is told about the data path.
// Set counts what happens; the descriptions in it are of what the router reads
// from its state at each scrape.
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

// ttftBuckets are vLLM's own, so that both histograms overlay
// (vllm/v1/metrics/loggers.py).
func ttftBuckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
}

// Set is what is counted as it happens. Labels have few values whatever
// clients send: no session, key, path or model name of theirs is one.
type Set struct {
	requests  *prometheus.CounterVec
	ttfb      *prometheus.HistogramVec
	ttft      *prometheus.HistogramVec
	placing   prometheus.Histogram
	places    *prometheus.CounterVec
	prefix    *prometheus.CounterVec
	retries   *prometheus.CounterVec
	breaks    *prometheus.CounterVec
	current   []*prometheus.Desc // what Now sends
	inFlight  *prometheus.Desc
	sessions  *prometheus.Desc
	tokens    *prometheus.Desc
	capacity  *prometheus.Desc
	waiting   *prometheus.Desc
	homesLost *prometheus.Desc
}

// New returns a Set that has counted nothing.
func New() *Set {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: ttftBuckets()}, []string{"model", "reason"})
	}
	m := &Set{
		requests: counter("warden_requests_total", "Requests ended, by the status sent; 499 is a client that left before any.", "model", "replica", "code"),
		ttfb:     histogram("warden_time_to_first_byte_seconds", "Time from the request to the first byte of its answer."),
		ttft:     histogram("warden_time_to_first_token_seconds", "Time from the request to the first token of a streamed answer."),
		placing: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "warden_placement_duration_seconds", Help: "Time to decide where a turn goes.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 2.5, 11),
		}),
		places:  counter("warden_placements_total", "Turns placed, by reason.", "model", "replica", "reason"),
		prefix:  counter("warden_prefix_tokens_total", "Prompt tokens as the engines measured them: hit was cached, miss was computed.", "model", "reason", "result"),
		retries: counter("warden_retries_total", "Attempts that failed before the client saw anything, by cause.", "model", "cause"),
		breaks:  counter("warden_prefix_breaks_total", "Conversations whose cached prefix stopped matching, by cause.", "model", "cause"),
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(name, help, labels, nil)
		m.current = append(m.current, d)
		return d
	}
	m.inFlight = desc("warden_requests_in_flight", "Turns placed on a replica whose last byte has not been sent.", "model", "replica")
	m.sessions = desc("warden_sessions", "Conversations: sticky live on the replica, spilled were served there last but live elsewhere.", "model", "replica", "kind")
	m.tokens = desc("warden_session_tokens", "KV tokens that the active conversations of a replica need.", "model", "replica")
	m.capacity = desc("warden_kv_capacity_tokens", "KV tokens that a replica has room for.", "model", "replica")
	m.waiting = desc("warden_requests_waiting", "Turns that wait for a place.", "model")
	m.homesLost = desc("warden_homes_lost_total", "Conversations whose home ended.", "model")
	return m
}

// Placed counts one placement.
func (m *Set) Placed(model string, id placement.ReplicaID, reason placement.Reason) {
	m.places.WithLabelValues(model, string(id), string(reason)).Inc()
}

// Retried counts one failed attempt.
func (m *Set) Retried(model, cause string) { m.retries.WithLabelValues(model, cause).Inc() }

// Decided counts the time that one placement took to decide.
func (m *Set) Decided(took time.Duration) { m.placing.Observe(took.Seconds()) }

// Broke counts one conversation whose cached prefix stopped matching.
func (m *Set) Broke(model string, cause identity.Cause) {
	m.breaks.WithLabelValues(model, string(cause)).Inc()
}

// Finished counts one request that reached placement.
func (m *Set) Finished(rec *record.Record) {
	code := rec.Status
	if code == 0 {
		code = statusClientLeft
	}
	m.requests.WithLabelValues(rec.Model, string(rec.Replica), strconv.Itoa(code)).Inc()
	reason := string(rec.Reason)
	if !rec.FirstByte.IsZero() {
		m.ttfb.WithLabelValues(rec.Model, reason).Observe(rec.FirstByte.Sub(rec.Arrived).Seconds())
	}
	if rec.Stream && !rec.FirstToken.IsZero() {
		m.ttft.WithLabelValues(rec.Model, reason).Observe(rec.FirstToken.Sub(rec.Arrived).Seconds())
	}
	if u := rec.Usage; u.PromptTokens > 0 {
		cached := min(max(u.CachedTokens, 0), u.PromptTokens)
		m.prefix.WithLabelValues(rec.Model, reason, "hit").Add(float64(cached))
		m.prefix.WithLabelValues(rec.Model, reason, "miss").Add(float64(u.PromptTokens - cached))
	}
}

func (m *Set) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.ttfb, m.ttft, m.placing, m.places, m.prefix, m.retries, m.breaks}
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

// Now sends what is now in one model's placement.
func (m *Set) Now(to chan<- prometheus.Metric, model string, v placement.View) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(m.waiting, float64(len(v.Queue)), model)
	to <- prometheus.MustNewConstMetric(m.homesLost, prometheus.CounterValue, float64(v.Counters.HomesLost), model)
	for _, p := range v.Replicas {
		id := string(p.ID)
		gauge(m.inFlight, float64(p.Held), model, id)
		gauge(m.sessions, float64(p.Sticky), model, id, "sticky")
		gauge(m.sessions, float64(p.Spilled), model, id, "spilled")
		gauge(m.tokens, float64(p.SessionTokens), model, id)
		if p.CapacityTokens > 0 {
			gauge(m.capacity, float64(p.CapacityTokens), model, id)
		}
	}
}
