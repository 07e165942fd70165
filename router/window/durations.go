package window

import (
	"math"
	"time"
)

// Buckets grow by a tenth from 1 ms: a quantile is off by at most 5 %, and 150
// of them reach 25 minutes, longer than any client waits for a first byte.
const (
	bucketCount  = 150
	bucketGrowth = 1.1
	bucketFirst  = time.Millisecond
)

// Histogram counts durations in logarithmic buckets. The zero value is empty.
type Histogram [bucketCount]uint32

// Add counts one duration; outliers fall into the first or last bucket.
func (h *Histogram) Add(d time.Duration) { h[bucket(d)]++ }

// Merge adds the counts of o.
func (h *Histogram) Merge(o *Histogram) {
	for i, n := range o {
		h[i] += n
	}
}

// Count is how many durations were added.
func (h *Histogram) Count() (n uint64) {
	for _, c := range h {
		n += uint64(c)
	}
	return n
}

// Quantile returns the q-quantile (0 to 1) and false when nothing was added.
func (h *Histogram) Quantile(q float64) (time.Duration, bool) {
	total := h.Count()
	if total == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(total)))
	rank = max(rank, 1)
	var seen uint64
	for i, c := range h {
		if seen += uint64(c); seen >= rank {
			return middle(i), true
		}
	}
	return middle(bucketCount - 1), true
}

func bucket(d time.Duration) int {
	if d <= bucketFirst {
		return 0
	}
	i := int(math.Log(float64(d)/float64(bucketFirst))/math.Log(bucketGrowth)) + 1
	return min(i, bucketCount-1)
}

// middle is the geometric middle of bucket i, so the relative error is the
// same upwards and downwards.
func middle(i int) time.Duration {
	if i == 0 {
		return bucketFirst
	}
	return time.Duration(float64(bucketFirst) * math.Pow(bucketGrowth, float64(i)-0.5))
}

// Durations answers quantiles over a recent span.
type Durations struct{ ring *Ring[Histogram] }

// NewDurations keeps n slots of width each from base on.
func NewDurations(base time.Time, width time.Duration, n int) *Durations {
	return &Durations{NewRing[Histogram](base, width, n)}
}

// Add counts one duration at now.
func (d *Durations) Add(now time.Time, v time.Duration) { d.ring.At(now).Add(v) }

// Over returns the merged histogram of the last span. Histograms of several
// replicas can be merged again; their quantiles must never be averaged.
func (d *Durations) Over(now time.Time, span time.Duration) (h Histogram) {
	d.ring.Each(now, span, h.Merge)
	return h
}
