package screen

import (
	"math"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// window is the span of every sparkline: one axis for all, so that columns of different rows compare.
const window = 60 * time.Second

// point is what one moment leaves behind for one replica, or for all of them. Unknown figures are gaps.
type point struct {
	held, waiting, kv, hit, ttft, cached, computed float64
}

// sample is one moment. Samples are never changed once made: two States may share them.
type sample struct {
	at       time.Time
	all      point
	replicas map[string]point
}

// history holds the samples of the last window, oldest first.
type history []sample

// add returns h with the status appended, without what is too old. h itself stays as it is.
func (h history) add(s control.Status) history {
	at := s.Now
	if n := len(h); n > 0 && !at.After(h[n-1].at) {
		return h
	}
	first := 0
	for first < len(h) && at.Sub(h[first].at) > window {
		first++
	}
	out := make(history, 0, len(h)-first+1)
	out = append(out, h[first:]...)
	return append(out, sampleOf(s))
}

func sampleOf(s control.Status) sample {
	out := sample{at: s.Now, replicas: make(map[string]point, len(s.Replicas))}
	all := point{kv: cell.Gap(), hit: known(s.Totals.HitRate60s), ttft: p50(s.Totals.TTFT)}
	for _, r := range s.Replicas {
		p := pointOf(r)
		out.replicas[r.ID] = p
		all.held += p.held
		all.waiting += orZero(p.waiting)
		all.kv = maxKnown(all.kv, p.kv)
		all.cached += orZero(p.cached)
		all.computed += orZero(p.computed)
	}
	out.all = all
	return out
}

func pointOf(r control.Replica) point {
	p := point{held: float64(r.Held), waiting: cell.Gap(), kv: cell.Gap(), hit: cell.Gap(), ttft: p50(r.TTFT), cached: cell.Gap(), computed: cell.Gap()}
	if e := r.Engine; e != nil && !e.Stale {
		p.waiting, p.kv, p.hit = float64(e.Waiting), e.KVUsed, known(e.HitRate60s)
	}
	if t := r.PromptTokens; t != nil {
		p.cached, p.computed = t.CachedPerSecond, t.ComputedPerSecond
	}
	return p
}

// series reads one figure of one replica ("" = all) into n cells that together span the window and end at end. Cells
// stand on fixed multiples of their span, so that a picture moves by whole cells and never flickers. peaks keeps the
// largest value in a cell (counts, times), otherwise the mean (ratios).
func (h history) series(replica string, end time.Time, n int, peaks bool, figure func(point) float64) []float64 {
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
		i := n - 1 - int(last-s.at.UnixNano()/int64(span))
		if i < 0 || i >= n {
			continue
		}
		p, there := s.all, true
		if replica != "" {
			p, there = s.replicas[replica]
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

func known(v *float64) float64 {
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

func orZero(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func maxKnown(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	default:
		return max(a, b)
	}
}

// top is the largest known value, 0 without any.
func top(series ...[]float64) float64 {
	t := 0.0
	for _, s := range series {
		for _, v := range s {
			t = max(t, orZero(v))
		}
	}
	return t
}
