package ledger

import (
	"time"

	"github.com/lm-warden/warden/router/placement/estimate"
	"github.com/lm-warden/warden/router/placement/shadow"
)

// Replica is the account of one engine process: everything we have placed on
// it. A new generation gets a new account; turns in flight keep pointing at the
// old one, so their end never touches the counts of its successor.
type Replica struct {
	Spec
	// gone: removed or replaced by a newer generation. Homes that point here
	// are lost; they are noticed when their conversation comes back.
	gone bool

	// Claimed is the run of the queue in which a waiting turn has claimed the
	// next room here: nobody behind it may have that.
	Claimed uint64

	held    int    // turns dispatched and not ended
	prefill int    // expected uncached tokens of held turns before their first byte
	placed  uint64 // turns dispatched here since this account began

	homed        int // known conversations whose home is here
	spilled      int // conversations whose latest turn was served here away from home
	active       int // homed conversations seen within the active window
	activeTokens int // their footprint in tokens, the shared prefix not counted

	stats EngineView // in front of the caches: read for all replicas at each choice

	cache shadow.Cache
	host  shadow.Cache // the second tier, where there is one

	// Rate is its prefill speed.
	Rate estimate.Rate
	// Residents and Safety are kept by admission only.
	Residents Residents
	Safety    Safety
}

// NewReplica opens the account of a process; rate is that of its peers.
func NewReplica(rate estimate.Rate) *Replica { return &Replica{Rate: rate} }

// Update takes what is told about the same process.
func (r *Replica) Update(spec Spec) {
	r.Spec = spec
	r.cache.SetCapacity(r.Capacity())
	r.host.SetCapacity(r.HostKVTokens)
}

// SetStats takes what the engine says about itself.
func (r *Replica) SetStats(v EngineView) {
	r.stats = v
	r.cache.SetCapacity(r.Capacity())
}

// End closes the account: the process has ended.
func (r *Replica) End() {
	r.gone, r.Accepting = true, false
	r.cache.Close()
	r.host.Close()
	r.ReleaseAll()
}

// Gone reports that the process has ended.
func (r *Replica) Gone() bool { return r.gone }

// Begin counts a turn that has been sent here, with work tokens to compute.
func (r *Replica) Begin(work int) {
	r.held++
	r.placed++
	r.prefill += work
}

// Prefilled notes that a held turn's work has been computed, or is not wanted
// any more.
func (r *Replica) Prefilled(work int) { r.prefill -= work }

// Finish counts the end of a held turn.
func (r *Replica) Finish() { r.held-- }

// Held is the number of turns dispatched and not ended.
func (r *Replica) Held() int { return r.held }

// Prefill is the tokens that held turns have yet to compute before their first
// byte.
func (r *Replica) Prefill() int { return r.prefill }

// Placed is the number of turns dispatched here so far.
func (r *Replica) Placed() uint64 { return r.placed }

// Homed is the number of known conversations whose home is here; Active of them
// were seen lately and need ActiveTokens; Spilled ones live elsewhere and were
// served here last.
func (r *Replica) Homed() int { return r.homed }

// Active is described at Homed.
func (r *Replica) Active() int { return r.active }

// ActiveTokens is described at Homed.
func (r *Replica) ActiveTokens() int { return r.activeTokens }

// Spilled is described at Homed.
func (r *Replica) Spilled() int { return r.spilled }

// Cached is the tokens that its prefix cache is believed to hold.
func (r *Replica) Cached() int { return r.cache.Used() }

// Displaced calls visit for what n more tokens would drop from its prefix cache,
// as shadow.Cache does.
func (r *Replica) Displaced(n, limit int, visit func(h *shadow.Holding, tokens int)) {
	r.cache.Displaced(n, limit, visit)
}

// Capacity is the KV cache in tokens, 0 when not known.
func (r *Replica) Capacity() int {
	if r.KVCapacityTokens > 0 {
		return r.KVCapacityTokens
	}
	return r.stats.KVCapacityTokens
}

// AutoSeqs stands in for an engine whose batch limit is not known: vLLM's own
// default (vllm/engine/arg_utils.py, online serving on GPUs under 70 GiB).
const AutoSeqs = 256

// MaxSeqs is the batch limit to reckon with.
func (r *Replica) MaxSeqs() int {
	if r.MaxNumSeqs > 0 {
		return r.MaxNumSeqs
	}
	return AutoSeqs
}

// Full reports that more turns would only wait inside the engine, where they
// can neither be moved nor be overtaken. An eighth above the batch limit stays
// allowed so that the engine finds its next request when one ends.
func (r *Replica) Full() bool {
	seqs := r.MaxSeqs()
	return r.held >= seqs+max(1, seqs/8)
}

// autoCapacity stands in for a cache of unknown size. It only gives the
// comparison of replicas a scale, so any size does; this one is about three
// times the reference machine's cache of 36,000 tokens.
const autoCapacity = 100_000

// Fullness is how full the prefix cache is with conversations that are likely
// to come back, as a ratio that may exceed 1. The engine's own figure, while it
// is younger than maxAge, only counts running requests, so it can raise ours and
// never lower it.
func (r *Replica) Fullness(now time.Time, maxAge time.Duration) float64 {
	c := r.Capacity()
	if c == 0 {
		c = autoCapacity
	}
	f := float64(r.activeTokens) / float64(c)
	if !r.stats.At.IsZero() && now.Sub(r.stats.At) <= maxAge {
		f = max(f, r.stats.KVUsed)
	}
	return f
}
