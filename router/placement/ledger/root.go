package ledger

import "github.com/lm-warden/warden/router/placement/shadow"

// Root is a prefix that conversations share: system prompt and tools of one
// kind of agent. Its length is learned: it is what engines report as cached on
// first turns of conversations that they have never seen.
type Root struct {
	hash     uint64
	tokens   int // 0 until learned
	votes    int // of the majority vote that keeps tokens
	users    int // conversations that point here and turns that run with it
	holdings map[*shadow.Cache]*shadow.Holding
}

func newRoot(hash uint64) *Root {
	return &Root{hash: hash, holdings: map[*shadow.Cache]*shadow.Holding{}}
}

// Hash names it; 0 for none.
func (r *Root) Hash() uint64 {
	if r == nil {
		return 0
	}
	return r.hash
}

// Tokens is its length, 0 until it is learned and for none.
func (r *Root) Tokens() int {
	if r == nil {
		return 0
	}
	return r.tokens
}

// CachedOn is how many of its tokens we believe that on need not compute.
func (r *Root) CachedOn(on *Replica) int {
	if r == nil {
		return 0
	}
	h := r.holdings[&on.cache]
	if h == nil {
		return 0
	}
	return min(h.Tokens(), r.tokens)
}

// rootSlack is how far apart two reports may be and still speak for the same
// length: engines count whole blocks of up to 128 tokens.
const rootSlack = 128

// maxRootVotes bounds how long an old length outlives a change of the agent's
// system prompt: nine first turns of the new one.
const maxRootVotes = 8

// Learn takes one report of cached tokens on a first turn, by majority vote: a
// rare conversation that the engine did know must not move the length. A new
// length is what on holds of it, where the request of the report still runs.
func (r *Root) Learn(cached int, on *Replica) {
	switch d := cached - r.tokens; {
	case d >= -rootSlack && d <= rootSlack:
		r.votes = min(r.votes+1, maxRootVotes)
	case r.votes == 0:
		r.tokens, r.votes = cached, 1
		if h := r.holdings[&on.cache]; h != nil {
			h.Resize(cached)
		}
	default:
		r.votes--
	}
}

// pin counts one more use of r, in the cache of on.
func (r *Root) pin(on *Replica) *shadow.Holding {
	r.users++
	h := r.holdings[&on.cache]
	if h == nil {
		h = on.cache.New(r)
		r.holdings[&on.cache] = h
	}
	h.Pin(r.tokens)
	return h
}

// Forget implements shadow.Owner.
func (r *Root) Forget(h *shadow.Holding) { delete(r.holdings, h.Cache()) }
