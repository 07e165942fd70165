package metrics

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lm-warden/warden/supervisor"
)

// states are all that a replica can be in: each is a series, so that a query
// can tell "not ready" from "not there".
var states = []supervisor.State{
	supervisor.Pending, supervisor.WaitingGPU, supervisor.Starting, supervisor.Warming, supervisor.Ready, supervisor.Suspect,
	supervisor.Draining, supervisor.Stopping, supervisor.Stopped, supervisor.Backoff, supervisor.Parked, supervisor.Stuck,
}

// family is one metric whose values are read when it is asked for.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// descriptions makes families and remembers them for Describe.
type descriptions []*prometheus.Desc

func (d *descriptions) gauge(name, help string, labels ...string) family {
	return d.family(prometheus.GaugeValue, name, help, labels)
}

func (d *descriptions) counter(name, help string, labels ...string) family {
	return d.family(prometheus.CounterValue, name, help, labels)
}

func (d *descriptions) family(kind prometheus.ValueType, name, help string, labels []string) family {
	f := family{prometheus.NewDesc(name, help, labels, nil), kind}
	*d = append(*d, f.desc)
	return f
}

// Describe is the same for all collectors of this package.
func (d *descriptions) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range *d {
		to <- desc
	}
}

func (f family) send(to chan<- prometheus.Metric, value float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, value, labels...)
}

// daemon collects what the supervisor knows.
type daemon struct {
	descriptions
	o Options

	build, dropped              family
	lines, spans                family
	info, state, restarts, took family
	age                         family
}

func newDaemon(o Options) *daemon {
	d := &daemon{o: o}
	d.build = d.gauge("warden_build_info", "What warden was built from; always 1.", "version", "revision", "goversion")
	d.dropped = d.counter("warden_events_dropped_total", "Events that slow watchers of the daemon lost.")
	d.lines = d.counter("warden_access_log_lines_dropped_total", "Requests that the access log could not take: its disk was full or too slow.")
	d.spans = d.counter("warden_spans_dropped_total", "Spans that the collector did not take in time.")
	d.info = d.gauge("warden_replica_info", "What a replica runs; always 1. The device says \"simulated\" where no model answers.",
		"model", "replica", "device", "engine_version")
	d.state = d.gauge("warden_replica_state", "1 for the state that a replica is in, 0 for all others.", "model", "replica", "state")
	d.restarts = d.counter("warden_replica_restarts_total", "Engine starts after the first, by cause: order (somebody asked), "+
		"start (the one before never served), crash, hang.", "model", "replica", "cause")
	d.took = d.gauge("warden_replica_start_seconds", "How long each phase of the last successful start took.", "model", "replica", "phase")
	d.age = d.gauge("warden_engine_stats_age_seconds", "Time since an engine's own figures were last read.", "model", "replica")
	return d
}

// Collect makes daemon a prometheus.Collector.
func (d *daemon) Collect(to chan<- prometheus.Metric) {
	d.build.send(to, 1, d.o.Version, d.o.Revision, runtime.Version())
	d.dropped.send(to, float64(d.o.EventsDropped()))
	if d.o.LinesDropped != nil {
		d.lines.send(to, float64(d.o.LinesDropped()))
	}
	if d.o.SpansDropped != nil {
		d.spans.send(to, float64(d.o.SpansDropped()))
	}
	now := d.o.Now()
	for _, r := range d.o.Replicas() {
		d.replica(to, r, now)
	}
}

func (d *daemon) replica(to chan<- prometheus.Metric, r supervisor.Replica, now time.Time) {
	id := string(r.ID)
	d.info.send(to, 1, r.Model, id, r.Device, r.Version)
	for _, s := range states {
		value := 0.0
		if s == r.State {
			value = 1
		}
		d.state.send(to, value, r.Model, id, string(s))
	}
	for cause, n := range r.RestartsBy.All {
		d.restarts.send(to, float64(n), r.Model, id, string(cause))
	}
	for _, p := range r.StartPhases {
		d.took.send(to, p.Took.Seconds(), r.Model, id, p.Name)
	}
	if r.PID != 0 && !r.Stats.At.IsZero() {
		d.age.send(to, max(now.Sub(r.Stats.At).Seconds(), 0), r.Model, id)
	}
}

var _ prometheus.Collector = (*daemon)(nil)
