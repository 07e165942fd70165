package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lm-warden/warden/router/placement"
)

func (m *Set) descriptions() {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		d := prometheus.NewDesc(name, help, labels, nil)
		m.current = append(m.current, d)
		return d
	}
	m.inFlight = desc("warden_requests_in_flight", "Turns placed on a replica whose last byte has not been sent.", "model", "replica")
	m.spillLimit = desc("warden_spill_limit", "Turns in flight from which a conversation's next turn is served away from home.", "model", "replica")
	m.sessions = desc("warden_sessions", "Conversations: sticky live on the replica, spilled were served there last but live elsewhere.", "model", "replica", "kind")
	m.tokens = desc("warden_session_tokens", "KV tokens that the active conversations of a replica need.", "model", "replica")
	m.capacity = desc("warden_kv_capacity_tokens", "KV tokens that a replica has room for.", "model", "replica")
	m.waiting = desc("warden_requests_waiting", "Turns that wait for a place.", "model")
	m.known = desc("warden_sessions_known", "Conversations that are remembered.", "model")
	m.seen = desc("warden_sessions_seen_total", "Conversations that have begun.", "model")
	m.affinityOn = desc("warden_affinity_enabled", "1 while conversations are kept where their prefix is cached.", "model")
	m.homesLost = desc("warden_homes_lost_total", "Conversations whose home ended.", "model")
}

// Now sends what is now in one model's placement; seen counts the
// conversations that have begun.
func (m *Set) Now(to chan<- prometheus.Metric, model string, v placement.View, seen uint64) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	affinity := 1.0
	if v.Policy == placement.PolicyBalance {
		affinity = 0
	}
	gauge(m.affinityOn, affinity, model)
	gauge(m.waiting, float64(len(v.Queue)), model)
	gauge(m.known, float64(v.SessionsKnown), model)
	counter(m.seen, seen, model)
	counter(m.homesLost, v.Counters.HomesLost, model)
	for _, p := range v.Replicas {
		id := string(p.ID)
		gauge(m.inFlight, float64(p.Held), model, id)
		gauge(m.spillLimit, float64(p.SpillLimit), model, id)
		gauge(m.sessions, float64(p.Sticky), model, id, "sticky")
		gauge(m.sessions, float64(p.Spilled), model, id, "spilled")
		gauge(m.tokens, float64(p.SessionTokens), model, id)
		if p.CapacityTokens > 0 {
			gauge(m.capacity, float64(p.CapacityTokens), model, id)
		}
	}
}
