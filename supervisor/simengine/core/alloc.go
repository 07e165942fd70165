package core

// room is a question to the block pool: may this request compute so many more
// tokens?
type room struct {
	tokens   int      // to compute in this step
	hit      []*block // cached prefix, not yet referenced
	external int      // tokens after hit that come from the host tier
	whole    bool     // the whole prompt must fit, not only this step's tokens
	reserved int      // blocks that other requests count on
	headroom int      // blocks to leave free
}

// allocate gives r the blocks it needs, or changes nothing and returns false
// (kv_cache_manager.py, allocate_slots).
//
// A cached block that nobody references counts as free and also as needed by
// the request that hits it: reviving it takes it from the free list.
func (s *Scheduler) allocate(r *request, q room) bool {
	size := s.cfg.BlockSize
	start := r.computed + len(q.hit)*size + q.external
	need := func(tokens int) int {
		blocks := (tokens + size - 1) / size
		return max(blocks-len(q.hit)-len(r.blocks), 0) + evictable(q.hit)
	}
	if q.whole && need(r.length())+q.headroom > s.pool.freeN {
		return false
	}
	if need(start+q.tokens)+q.headroom > s.pool.freeN-q.reserved {
		return false
	}
	if len(q.hit) > 0 {
		s.pool.touch(q.hit)
		r.blocks = append(r.blocks, q.hit...)
		r.registered = len(r.blocks)
	}
	blocks := (start + q.tokens + size - 1) / size
	if missing := blocks - len(r.blocks); missing > 0 {
		r.blocks = append(r.blocks, s.pool.take(missing)...)
	}
	return true
}

// registerBlocks makes the blocks of r's first tokens findable. vLLM does so
// when the step that fills them is planned, not when it ends: an identical
// prompt admitted in the same step already hits.
func (s *Scheduler) registerBlocks(r *request, tokens int) {
	full := min(tokens, r.length()) / s.cfg.BlockSize
	for ; r.registered < full; r.registered++ {
		s.pool.register(r.blocks[r.registered], r.hashes[r.registered])
	}
}

// pending counts the blocks that unfinished prefills will still take. A load
// from the host tier must leave them free, since it holds its own blocks for
// the whole transfer and cannot be preempted.
func (s *Scheduler) pending() int {
	n := 0
	for _, queue := range [][]*request{s.running, s.loading} {
		for _, r := range queue {
			if r.length()-r.computed <= 1 { // decoding
				continue
			}
			n += max((r.length()+s.cfg.BlockSize-1)/s.cfg.BlockSize-len(r.blocks), 0)
		}
	}
	return n
}
