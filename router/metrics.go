package router

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Describe makes the Router a prometheus.Collector.
func (r *Router) Describe(to chan<- *prometheus.Desc) { r.metrics.Describe(to) }

// Collect sends what was counted and what is now.
func (r *Router) Collect(to chan<- prometheus.Metric) {
	r.metrics.Counted(to)
	for _, d := range r.models.Load().deployments {
		v, seen := d.Latest(time.Now())
		r.metrics.Now(to, d.Alias, v, seen)
	}
}

var _ prometheus.Collector = (*Router)(nil)
