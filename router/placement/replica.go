package placement

import (
	"cmp"
	"slices"
	"time"
)

// replica is the ledger of one engine process: everything we have placed on
// it. A new generation gets a new ledger; turns in flight keep pointing at the
// old one, so their end never touches the counts of its successor.
type replica struct {
	Replica
	// gone: removed or replaced by a newer generation. Homes that point here
	// are lost; they are noticed when their conversation comes back.
	gone bool

	// closed is the run of pump in which a waiting turn claimed the next room
	// here.
	closed uint64

	held    int // turns dispatched and not ended
	prefill int // expected uncached tokens of held turns before their first byte

	homed        int // known conversations whose home is here
	spilled      int // conversations whose latest turn was served here away from home
	active       int // homed conversations seen within ActiveWindow
	activeTokens int // their footprint in tokens, the shared prefix not counted

	loose int // admission: tokens of held turns outside the resident set

	cache prefixCache
	host  prefixCache // the second tier, where there is one
	stats EngineView

	placed uint64        // turns dispatched here since this ledger began
	rate   rateEstimate  // prefill speed
	res    residentSet   // admission only
	safety safetyControl // admission only
}

// capacity is the KV cache in tokens, 0 when not known.
func (r *replica) capacity() int {
	if r.KVCapacityTokens > 0 {
		return r.KVCapacityTokens
	}
	return r.stats.KVCapacityTokens
}

// autoSeqs stands in for an engine whose batch limit is not known: vLLM's own
// default (vllm/engine/arg_utils.py, online serving on GPUs under 70 GiB).
const autoSeqs = 256

func (r *replica) maxSeqs() int {
	if r.MaxNumSeqs > 0 {
		return r.MaxNumSeqs
	}
	return autoSeqs
}

// full reports that more turns would only wait inside the engine, where they
// can neither be moved nor be overtaken. An eighth above the batch limit stays
// allowed so that the engine finds its next request when one ends.
func (r *replica) full() bool {
	seqs := r.maxSeqs()
	return r.held >= seqs+max(1, seqs/8)
}

// SpillLimit is the number of held turns from which a replica's conversations
// spill: limit when set, else a quarter of maxNumSeqs and at least 1.
func SpillLimit(limit, maxNumSeqs int) int {
	if limit > 0 {
		return limit
	}
	if maxNumSeqs <= 0 {
		maxNumSeqs = autoSeqs
	}
	return max(1, maxNumSeqs/4)
}

// autoCapacity stands in for a cache of unknown size. It only gives the
// comparison of replicas a scale.
const autoCapacity = 100_000

// fullness is how full the prefix cache is with conversations that are likely
// to come back, as a ratio that may exceed 1. The engine's own figure only counts running requests, so it can
// raise ours and never lower it.
func (r *replica) fullness(now time.Time, maxAge time.Duration) float64 {
	c := r.capacity()
	if c == 0 {
		c = autoCapacity
	}
	f := float64(r.activeTokens) / float64(c)
	if !r.stats.At.IsZero() && now.Sub(r.stats.At) <= maxAge {
		f = max(f, r.stats.KVUsed)
	}
	return f
}

// setReplicas applies a new set: unchanged processes keep their ledger.
func (p *Placer) setReplicas(set []Replica) {
	next := make([]*replica, 0, len(set))
	for _, want := range set {
		r := p.byID[want.ID]
		if r == nil || r.Generation != want.Generation {
			r = &replica{rate: p.rate}
		}
		if want.Accepting && !r.Accepting {
			p.arrivals++
		}
		r.Replica = want
		r.cache.capacity = r.capacity()
		r.cache.shrink()
		r.host.capacity = r.HostKVTokens
		r.host.shrink()
		next = append(next, r)
	}
	slices.SortFunc(next, func(a, b *replica) int { return cmp.Compare(a.ID, b.ID) })
	next = slices.CompactFunc(next, func(a, b *replica) bool { return a.ID == b.ID })

	byID := make(map[ReplicaID]*replica, len(next))
	for _, r := range next {
		byID[r.ID] = r
	}
	for _, r := range p.replicas {
		if byID[r.ID] != r {
			p.retire(r)
		}
	}
	p.replicas, p.byID = next, byID
	p.hostTier = slices.ContainsFunc(next, func(r *replica) bool { return r.HostKVTokens > 0 })
}

// retire marks a ledger whose process has ended.
func (p *Placer) retire(r *replica) {
	r.gone, r.Accepting = true, false
	p.counters.HomesLost += uint64(r.homed)
	r.cache.clear()
	r.host.clear()
	r.res.clear()
}
