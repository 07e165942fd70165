package metrics

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/lm-warden/warden/supervisor"
)

// Options are what an Exporter reads when it is asked. Nil functions leave
// their metrics out.
type Options struct {
	Version, Revision string
	// Replicas returns what is known of every replica; it must not wait.
	Replicas func() []supervisor.Replica
	// GPUs returns the GPUs and their last samples; it must not wait.
	GPUs func() []GPU
	// StartsHeld says whether the driver would refuse every engine now.
	StartsHeld func() bool
	// WayIn returns how keys and certificate are; it must not wait.
	WayIn func() WayIn
	// EventsDropped counts events that watchers of the daemon lost.
	EventsDropped func() uint64
	// LinesDropped and SpansDropped count what the access log and the tracer
	// could not get rid of.
	LinesDropped, SpansDropped func() uint64
	Log                        *slog.Logger     // nil = nothing is logged
	Now                        func() time.Time // nil = time.Now
}

func (o Options) withDefaults() Options {
	if o.Replicas == nil {
		o.Replicas = func() []supervisor.Replica { return nil }
	}
	if o.GPUs == nil {
		o.GPUs = func() []GPU { return nil }
	}
	if o.StartsHeld == nil {
		o.StartsHeld = func() bool { return false }
	}
	if o.WayIn == nil {
		o.WayIn = func() WayIn { return WayIn{} }
	}
	if o.EventsDropped == nil {
		o.EventsDropped = func() uint64 { return 0 }
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Exporter serves GET /metrics. Make one with New.
type Exporter struct {
	registry *prometheus.Registry
	engines  *engines
	http.Handler
}

// maxScrapes bounds the answers that are put together at the same time: each
// costs some milliseconds of a core that GPUs may wait for.
const maxScrapes = 4

// New returns an Exporter of the daemon, its replicas and their engines.
func New(o Options) *Exporter {
	o = o.withDefaults()
	e := &Exporter{registry: prometheus.NewRegistry(), engines: newEngines(o)}
	e.registry.MustRegister(newDaemon(o), newGPUs(o), newWayIn(o),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// What can be read is served: one engine's broken text must not hide the
	// state of its replica.
	e.Handler = patient(promhttp.HandlerFor(e.gatherer(), promhttp.HandlerOpts{
		ErrorLog: errorLog{o.Log}, ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes,
	}), o.Log)
	return e
}

func (e *Exporter) gatherer() prometheus.Gatherer {
	return prometheus.Gatherers{e.registry, e.engines}
}

// Register adds a collector; it panics when its names are taken.
func (e *Exporter) Register(c prometheus.Collector) { e.registry.MustRegister(c) }

// Keep takes over what an engine said of itself: see keep.Options.Scraped.
func (e *Exporter) Keep(id supervisor.ReplicaID, generation uint64, at time.Time, text []byte) {
	e.engines.keep(id, reading{generation: generation, at: at, text: text})
}

// errorLog is promhttp's idea of a log.
type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(v ...any) {
	l.log.Warn("some metrics are left out", "err", strings.TrimSpace(fmt.Sprintln(v...)))
}
