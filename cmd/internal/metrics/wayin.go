package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// WayIn is what clients need to come in, as far as it can go bad by itself.
type WayIn struct {
	// Stale says of each file that is configured whether what it holds now
	// cannot be used, so that what was read before counts. Keys are those of the
	// configuration: api_keys_file, tls_cert.
	Stale map[string]bool
	// NotAfter is the end of the certificate; zero without one.
	NotAfter time.Time
}

// wayIn collects WayIn.
type wayIn struct {
	descriptions
	o Options

	stale, notAfter family
}

func newWayIn(o Options) *wayIn {
	w := &wayIn{o: o}
	w.stale = w.gauge("warden_access_file_stale", "1 while a file as it is on disk cannot be used and what was read before counts, removed keys too.", "file")
	w.notAfter = w.gauge("warden_certificate_not_after_seconds", "When the API's certificate ends, in seconds since 1970.")
	return w
}

// Collect makes wayIn a prometheus.Collector.
func (w *wayIn) Collect(to chan<- prometheus.Metric) {
	now := w.o.WayIn()
	for file, stale := range now.Stale {
		w.stale.send(to, number(stale), file)
	}
	if !now.NotAfter.IsZero() {
		w.notAfter.send(to, float64(now.NotAfter.Unix()))
	}
}

var _ prometheus.Collector = (*wayIn)(nil)
