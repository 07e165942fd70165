package router

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lm-warden/warden/router/placement"
)

// statusClientLeft is what nginx and Caddy count a client as that left before
// any answer was sent.
const statusClientLeft = 499

// ttftBuckets are vLLM's own, so that both histograms overlay
// (vllm/v1/metrics/loggers.py).
func ttftBuckets() []float64 {
	return []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
}

// metrics are what is counted as it happens. Labels have few values whatever
// clients send: no session, key, path or model name of theirs is one.
type metrics struct {
	requests  *prometheus.CounterVec
	ttfb      *prometheus.HistogramVec
	ttft      *prometheus.HistogramVec
	placing   prometheus.Histogram
	places    *prometheus.CounterVec
	prefix    *prometheus.CounterVec
	retries   *prometheus.CounterVec
	current   []*prometheus.Desc // what Collect reads from the deployments
	inFlight  *prometheus.Desc
	sessions  *prometheus.Desc
	tokens    *prometheus.Desc
	capacity  *prometheus.Desc
	waiting   *prometheus.Desc
	homesLost *prometheus.Desc
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: ttftBuckets()}, []string{"model", "reason"})
	}
	m := &metrics{
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

// placed counts one placement.
func (m *metrics) placed(model string, id ReplicaID, reason placement.Reason) {
	m.places.WithLabelValues(model, string(id), string(reason)).Inc()
}

// retried counts one failed attempt.
func (m *metrics) retried(model, cause string) { m.retries.WithLabelValues(model, cause).Inc() }

// finished counts one request that reached placement.
func (m *metrics) finished(rec *Record) {
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

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.ttfb, m.ttft, m.placing, m.places, m.prefix, m.retries}
}

// Describe makes the Router a prometheus.Collector.
func (r *Router) Describe(to chan<- *prometheus.Desc) {
	for _, c := range r.metrics.collectors() {
		c.Describe(to)
	}
	for _, d := range r.metrics.current {
		to <- d
	}
}

// Collect sends what was counted and what is now.
func (r *Router) Collect(to chan<- prometheus.Metric) {
	m := r.metrics
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, d := range r.models.Load().deployments {
		d.mu.Lock()
		v := d.placer.View(time.Now())
		d.unlock()
		gauge(m.waiting, float64(len(v.Queue)), d.alias)
		to <- prometheus.MustNewConstMetric(m.homesLost, prometheus.CounterValue, float64(v.Counters.HomesLost), d.alias)
		for _, p := range v.Replicas {
			id := string(p.ID)
			gauge(m.inFlight, float64(p.Held), d.alias, id)
			gauge(m.sessions, float64(p.Sticky), d.alias, id, "sticky")
			gauge(m.sessions, float64(p.Spilled), d.alias, id, "spilled")
			gauge(m.tokens, float64(p.SessionTokens), d.alias, id)
			if p.CapacityTokens > 0 {
				gauge(m.capacity, float64(p.CapacityTokens), d.alias, id)
			}
		}
	}
}

var _ prometheus.Collector = (*Router)(nil)
