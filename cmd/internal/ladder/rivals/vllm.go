package rivals

import (
	"cmp"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// dp026 is vLLM 0.26's balancer for a dense model: the score is 4 x waiting +
// running, but the engines' counts never arrive, so only the increments that
// the client itself adds to the chosen one's waiting count; they fall back to
// zero every 5 s. The scan starts one further each time.
type dp026 struct {
	scan    int
	waiting []int
	reset   time.Time
}

const dpReset = 5 * time.Second

func (d *dp026) pick(f *fleet, _ *placement.Turn, now time.Time) *replica {
	if now.Sub(d.reset) >= dpReset || len(d.waiting) != len(f.replicas) {
		d.waiting, d.reset = make([]int, len(f.replicas)), now
	}
	r := scanLeast(f.open, &d.scan, func(r *replica) float64 { return float64(4 * d.waiting[r.index]) })
	d.waiting[r.index]++
	return r
}

// dp027 is the balancer of 0.27 to 0.32: max(own in flight, waiting + running)
// plus 6 x waiting x the KV use above one half; the counts are those of the
// last publication, 100 ms apart, plus one waiting for each own choice since.
type dp027 struct {
	scan  int
	added []int
	seen  []time.Time
}

func (d *dp027) pick(f *fleet, _ *placement.Turn, _ time.Time) *replica {
	if len(d.added) != len(f.replicas) {
		d.added, d.seen = make([]int, len(f.replicas)), make([]time.Time, len(f.replicas))
	}
	r := scanLeast(f.open, &d.scan, func(r *replica) float64 {
		if !r.stats.At.Equal(d.seen[r.index]) {
			d.seen[r.index], d.added[r.index] = r.stats.At, 0
		}
		waiting := float64(r.stats.Waiting + d.added[r.index])
		return max(float64(r.held), waiting+float64(r.stats.Running)) + 6*waiting*max(0, r.stats.KVUsed-0.5)
	})
	d.added[r.index]++
	return r
}

// scanLeast is the first smallest score from a start that moves by one.
func scanLeast(set []*replica, scan *int, score func(*replica) float64) *replica {
	start := *scan
	*scan++
	best := set[start%len(set)]
	bestScore := score(best)
	for i := 1; i < len(set); i++ {
		r := set[(start+i)%len(set)]
		if s := score(r); s < bestScore {
			best, bestScore = r, s
		}
	}
	return best
}

func sortPoints(p []point) {
	slices.SortFunc(p, func(a, b point) int { return cmp.Compare(a.hash, b.hash) })
}
