package state

import (
	"math"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// window is the span of every sparkline: one axis for all, so that columns of different rows compare.
const window = 60 * time.Second

// waitTime is for how long requests must have been waiting before it is told: shorter waits are how an engine batches.
const waitTime = 5 * time.Second

// Point is what one moment leaves behind for one replica, or for all of them. Unknown figures are gaps.
type Point struct {
	Held, Waiting, KV, Hit, TTFT, Cached, Computed float64
}

// Sample is one moment. Samples are never changed once made: two States may share them.
type Sample struct {
	At       time.Time
	All      Point
	Replicas map[string]Point
}

// History holds the samples of the last window, oldest first.
type History []Sample

// add returns h with the status appended, without what is too old. h itself stays as it is.
func (h History) add(s control.Status) History {
	at := s.Now
	if n := len(h); n > 0 && !at.After(h[n-1].At) {
		return h
	}
	first := 0
	for first < len(h) && at.Sub(h[first].At) > window {
		first++
	}
	out := make(History, 0, len(h)-first+1)
	out = append(out, h[first:]...)
	return append(out, sampleOf(s))
}

func sampleOf(s control.Status) Sample {
	out := Sample{At: s.Now, Replicas: make(map[string]Point, len(s.Replicas))}
	all := Point{KV: cell.Gap(), Hit: Known(s.Totals.HitRate60s), TTFT: p50(s.Totals.TTFT)}
	for _, r := range s.Replicas {
		p := PointOf(r)
		out.Replicas[r.ID] = p
		all.Held += p.Held
		all.Waiting += OrZero(p.Waiting)
		all.KV = MaxKnown(all.KV, p.KV)
		all.Cached += OrZero(p.Cached)
		all.Computed += OrZero(p.Computed)
	}
	out.All = all
	return out
}

// PointOf takes the figures of a replica; what is unknown or stale is a gap.
func PointOf(r control.Replica) Point {
	p := Point{Held: float64(r.Held), Waiting: cell.Gap(), KV: cell.Gap(), Hit: cell.Gap(), TTFT: p50(r.TTFT), Cached: cell.Gap(), Computed: cell.Gap()}
	if e := r.Engine; e != nil && !e.Stale {
		p.Waiting, p.KV, p.Hit = float64(e.Waiting), e.KVUsed, Known(e.HitRate60s)
	}
	if t := r.PromptTokens; t != nil {
		p.Cached, p.Computed = t.CachedPerSecond, t.ComputedPerSecond
	}
	return p
}

// Series reads one figure of one replica ("" = all) into n cells that together span the window and end at end. Cells
// stand on fixed multiples of their span, so that a picture moves by whole cells and never flickers. peaks keeps the
// largest value in a cell (counts, times), otherwise the mean (ratios).
func (h History) Series(replica string, end time.Time, n int, peaks bool, figure func(Point) float64) []float64 {
	out := make([]float64, n)
	counts := make([]int, n)
	for i := range out {
		out[i] = cell.Gap()
	}
	if n == 0 {
		return out
	}
	span := window / time.Duration(n)
	last := end.UnixNano() / int64(span)
	for _, s := range h {
		i := n - 1 - int(last-s.At.UnixNano()/int64(span))
		if i < 0 || i >= n {
			continue
		}
		p, there := s.All, true
		if replica != "" {
			p, there = s.Replicas[replica]
		}
		v := figure(p)
		if !there || math.IsNaN(v) {
			continue
		}
		switch {
		case counts[i] == 0:
			out[i] = v
		case peaks:
			out[i] = max(out[i], v)
		default: // running mean
			out[i] += (v - out[i]) / float64(counts[i]+1)
		}
		counts[i]++
	}
	return out
}

// Waits reports whether requests of a replica have been waiting in every sample of the last five seconds.
func (h History) Waits(replica string) bool {
	for i := len(h) - 1; i >= 0; i-- {
		if OrZero(h[i].Replicas[replica].Waiting) <= 0 {
			return false
		}
		if h[len(h)-1].At.Sub(h[i].At) >= waitTime {
			return true
		}
	}
	return false
}

// Known is a figure, or a gap.
func Known(v *float64) float64 {
	if v == nil {
		return cell.Gap()
	}
	return *v
}

func p50(q *control.Quantiles) float64 {
	if q == nil {
		return cell.Gap()
	}
	return q.P50
}

// OrZero takes a gap for nothing, where things are added up.
func OrZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

// MaxKnown is the larger of two figures of which either may be a gap.
func MaxKnown(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	default:
		return max(a, b)
	}
}

// Largest is the largest known value, 0 without any.
func Largest(series ...[]float64) float64 {
	t := 0.0
	for _, s := range series {
		for _, v := range s {
			t = max(t, OrZero(v))
		}
	}
	return t
}
