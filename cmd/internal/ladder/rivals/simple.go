package rivals

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/lm-warden/warden/router/placement"
)

// roundRobin gives each turn to the next replica.
type roundRobin struct{ next int }

func (r *roundRobin) pick(f *fleet, _ *placement.Turn, _ time.Time) *replica {
	r.next++
	return f.open[(r.next-1)%len(f.open)]
}

type random struct{ rng *rand.Rand }

func newRandom(seed uint64) rule { return random{rand.New(rand.NewPCG(seed, 17))} }

func (r random) pick(f *fleet, _ *placement.Turn, _ time.Time) *replica {
	return f.open[r.rng.IntN(len(f.open))]
}

// leastConn gives each turn to a replica with the fewest in flight.
type leastConn struct{}

func (leastConn) pick(f *fleet, _ *placement.Turn, _ time.Time) *replica {
	return least(f.open, inFlight)
}

// stickTable is leastconn for a conversation's first turn, and that replica for
// ever after while it accepts.
type stickTable struct{}

func (*stickTable) pick(f *fleet, t *placement.Turn, _ time.Time) *replica {
	if home := f.home(t); home != nil {
		return home
	}
	return least(f.open, inFlight)
}

// home is where the conversation went last, if that replica accepts.
func (f *fleet) home(t *placement.Turn) *replica {
	home := f.sessions[t.Key]
	for _, r := range f.open {
		if r == home {
			return r
		}
	}
	return nil
}

// hashRing is consistent hashing on the session id; with a bound it walks on
// while a replica holds more than bound times the average.
type hashRing struct {
	bound float64
	ring  []point
	size  int // replicas that the ring was built for
}

type point struct {
	hash    uint64
	replica int
}

// virtualNodes per replica, as in vllm-project/router.
const virtualNodes = 160

func (h *hashRing) pick(f *fleet, t *placement.Turn, _ time.Time) *replica {
	h.build(f)
	at := xxhash.Sum64(t.Key[:])
	first := 0
	for i, p := range h.ring {
		if p.hash >= at {
			first = i
			break
		}
	}
	for i := range h.ring {
		r := f.replicas[h.ring[(first+i)%len(h.ring)].replica]
		if r.Accepting && f.isOpen(r) && h.fits(f, r) {
			return r
		}
	}
	return f.open[0]
}

func (h *hashRing) fits(f *fleet, r *replica) bool {
	if h.bound == 0 {
		return true
	}
	return float64(r.held+1) <= h.bound*float64(f.total+1)/float64(len(f.open))
}

func (f *fleet) isOpen(r *replica) bool {
	for _, o := range f.open {
		if o == r {
			return true
		}
	}
	return false
}

func (h *hashRing) build(f *fleet) {
	if h.size == len(f.replicas) {
		return
	}
	h.size, h.ring = len(f.replicas), nil
	for i := range f.replicas {
		for v := range virtualNodes {
			var b [16]byte
			binary.BigEndian.PutUint64(b[:], uint64(i))
			binary.BigEndian.PutUint64(b[8:], uint64(v))
			h.ring = append(h.ring, point{xxhash.Sum64(b[:]), i})
		}
	}
	sortPoints(h.ring)
}
