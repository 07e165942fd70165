package metrics

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// exposition writes Prometheus text as Python's client does, whose habits
// readers of vLLM's metrics must cope with: counters end in _total and have a
// _created twin of type gauge, integers have a decimal point.
type exposition struct {
	b       *strings.Builder
	created time.Time
}

// labels are written in the order of their names.
type labels map[string]string

func (l labels) with(name, text string) labels {
	out := maps.Clone(l)
	out[name] = text
	return out
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

func (l labels) String() string {
	if len(l) == 0 {
		return ""
	}
	parts := make([]string, 0, len(l))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, name+`="`+escapeLabel.Replace(l[name])+`"`)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// value is one sample.
type value struct {
	labels labels
	number float64
}

func (e *exposition) head(name, kind, help string) {
	fmt.Fprintf(e.b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (e *exposition) sample(name string, l labels, number float64) {
	fmt.Fprintf(e.b, "%s%s %s\n", name, l, formatFloat(number))
}

// formatFloat writes 3 as 3.0 and large numbers with an exponent.
func formatFloat(number float64) string {
	if math.IsInf(number, 1) {
		return "+Inf"
	}
	text := strconv.FormatFloat(number, 'g', -1, 64)
	if !strings.ContainsAny(text, ".e") {
		text += ".0"
	}
	return text
}

func (e *exposition) gauge(name, help string, values ...value) {
	e.head(name, "gauge", help)
	for _, v := range values {
		e.sample(name, v.labels, v.number)
	}
}

func (e *exposition) counter(name, help string, values ...value) {
	e.head(name+"_total", "counter", help)
	for _, v := range values {
		e.sample(name+"_total", v.labels, v.number)
	}
	e.twin(name, help, values...)
}

func (e *exposition) twin(name, help string, values ...value) {
	e.head(name+"_created", "gauge", help)
	for _, v := range values {
		e.sample(name+"_created", v.labels, float64(e.created.UnixMicro())/1e6)
	}
}

func (e *exposition) histogram(name, help string, l labels, h *histogram) {
	e.head(name, "histogram", help)
	total := uint64(0)
	for i, count := range h.counts {
		total += count
		bound := math.Inf(1)
		if i < len(h.bounds) {
			bound = h.bounds[i]
		}
		e.sample(name+"_bucket", l.with("le", formatFloat(bound)), float64(total))
	}
	e.sample(name+"_count", l, float64(total))
	e.sample(name+"_sum", l, h.sum)
	e.twin(name, help, value{labels: l})
}

// histogram counts observations per bucket; the last has no bound.
type histogram struct {
	bounds []float64
	counts []uint64
	sum    float64
}

func newHistogram(bounds []float64) *histogram {
	return &histogram{bounds: bounds, counts: make([]uint64, len(bounds)+1)}
}

func (h *histogram) observe(number float64) {
	i, _ := slices.BinarySearch(h.bounds, number)
	h.counts[i]++
	h.sum += number
}
