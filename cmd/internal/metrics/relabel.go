package metrics

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// prefix of the series that are passed on. What else an engine exports is
	// about its Python process and its HTTP server, which warden knows better.
	prefix = "vllm:"
	// created is what Python's client library adds to each counter and
	// histogram: a series more for each, with a time that no query needs.
	created = "_created"

	// maxSamples bounds what one replica adds to an answer, buckets counted.
	// vLLM 0.32 has 450; each LoRA adapter or finish reason adds some.
	maxSamples = 5000

	replicaLabel = "replica"
)

// families are metric families by name.
type families map[string]*dto.MetricFamily

// relabel reads an engine's text and adds the replica to every series. Whole
// families are left out, in the order of their names, once there are too many
// samples; dropped counts theirs.
func relabel(text []byte, replica string) (found families, dropped int, err error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, 0, fmt.Errorf("its metrics cannot be read: %w", err)
	}
	found = families{}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		f := all[name]
		if !strings.HasPrefix(name, prefix) || strings.HasSuffix(name, created) {
			continue
		}
		n := samples(f)
		if total+n > maxSamples {
			dropped += n
			continue
		}
		total += n
		for _, m := range f.Metric {
			m.Label, m.TimestampMs = withReplica(m.Label, replica), nil
		}
		found[name] = f
	}
	return found, dropped, nil
}

// withReplica adds the label. An engine's own of that name is kept under the
// name that Prometheus itself would give it.
func withReplica(labels []*dto.LabelPair, replica string) []*dto.LabelPair {
	for _, l := range labels {
		if l.GetName() == replicaLabel {
			l.Name = ptr("exported_" + replicaLabel)
		}
	}
	labels = append(labels, &dto.LabelPair{Name: ptr(replicaLabel), Value: ptr(replica)})
	slices.SortFunc(labels, func(a, b *dto.LabelPair) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return labels
}

// samples counts the lines that a family has in the text format.
func samples(f *dto.MetricFamily) int {
	n := 0
	for _, m := range f.Metric {
		switch {
		case m.Histogram != nil:
			n += len(m.Histogram.Bucket) + 2
		case m.Summary != nil:
			n += len(m.Summary.Quantile) + 2
		default:
			n++
		}
	}
	return n
}

// add takes another replica's families in and counts the samples it had to
// leave out: one name cannot have two types. The first help text stays.
func (all families) add(more families) (dropped int) {
	for name, f := range more {
		have := all[name]
		switch {
		case have == nil:
			all[name] = f
		case have.GetType() == f.GetType():
			have.Metric = append(have.Metric, f.Metric...)
		default:
			dropped += samples(f)
		}
	}
	return dropped
}
