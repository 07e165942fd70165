package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/lm-warden/warden/supervisor"
)

// maxReadingAge is the age from which an engine's figures are left out, so
// that its series end when it stops answering instead of standing still.
const maxReadingAge = 15 * time.Second

// reading is what one engine said of itself.
type reading struct {
	generation uint64
	at         time.Time
	text       []byte // Prometheus' text format
}

// engines gathers the engines' own series. They come from programs of other
// people, in versions that may differ between replicas, so they do not pass
// through a registry: it would refuse all for the difference of one help text.
type engines struct {
	o Options

	mu       sync.Mutex
	readings map[supervisor.ReplicaID]reading
}

func newEngines(o Options) *engines {
	return &engines{o: o, readings: map[supervisor.ReplicaID]reading{}}
}

func (e *engines) keep(id supervisor.ReplicaID, r reading) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.readings[id] = r
}

// of returns the reading of the process that runs now, unless it is old.
func (e *engines) of(r supervisor.Replica, now time.Time) (reading, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	last, ok := e.readings[r.ID]
	return last, ok && r.PID != 0 && last.generation == r.Generation && now.Sub(last.at) <= maxReadingAge
}

// Gather makes engines a prometheus.Gatherer. An engine whose text cannot be
// read is named in the error; all others are still in the answer.
func (e *engines) Gather() ([]*dto.MetricFamily, error) {
	merged, now := families{}, e.o.Now()
	lost := &dto.MetricFamily{
		Name: ptr("warden_engine_samples_dropped"), Type: dto.MetricType_GAUGE.Enum(),
		Help: ptr("Samples in an engine's last figures that are not passed on, because they are too many or contradict another engine's."),
	}
	var errs []error
	for _, r := range e.o.Replicas() {
		last, ok := e.of(r, now)
		if !ok {
			continue
		}
		found, dropped, err := relabel(last.text, string(r.ID))
		if err != nil {
			errs = append(errs, fmt.Errorf("replica %s: %w", r.ID, err))
			continue
		}
		dropped += merged.add(found)
		lost.Metric = append(lost.Metric, &dto.Metric{
			Label: []*dto.LabelPair{{Name: ptr("model"), Value: ptr(r.Model)}, {Name: ptr("replica"), Value: ptr(string(r.ID))}},
			Gauge: &dto.Gauge{Value: ptr(float64(dropped))},
		})
	}
	if len(lost.Metric) > 0 {
		merged[lost.GetName()] = lost
	}
	out := make([]*dto.MetricFamily, 0, len(merged))
	for _, name := range slices.Sorted(maps.Keys(merged)) {
		out = append(out, merged[name])
	}
	return out, errors.Join(errs...)
}

func ptr[T any](v T) *T { return &v }

var _ prometheus.Gatherer = (*engines)(nil)
