package core

import (
	"slices"
	"time"
)

// batch is one step in the making.
type batch struct {
	items     []item
	budget    int // tokens left
	threshold int // cap on one prefill's share; 0 = none
	load      Load
	preempted int
	again     bool // nothing may have been planned, yet planning anew can help
}

// item is one request's part of a step.
type item struct {
	r      *request
	tokens int
}

// plan chooses who runs: first the running requests in admission order, then
// the waiting ones in their order until the first that has no room.
func (s *Scheduler) plan(now time.Time) *batch {
	b := &batch{budget: s.cfg.MaxBatchedTokens}
	if len(s.running)+len(s.waiting)+len(s.loading) > 1 {
		b.threshold = s.cfg.LongPrefillThreshold
	}
	s.planRunning(b)
	if b.preempted == 0 {
		s.planLoaded(b)
		s.planWaiting(b, now)
	}
	for _, it := range b.items {
		b.load.add(it)
	}
	return b
}

// chunk is how many of a request's remaining tokens this step may compute.
func (b *batch) chunk(remaining int) int {
	if b.threshold > 0 {
		remaining = min(remaining, b.threshold)
	}
	return min(remaining, b.budget)
}

func (b *batch) add(r *request, tokens int) {
	b.items = append(b.items, item{r: r, tokens: tokens})
	b.budget -= tokens
}

// remove takes a preempted request out of the step again.
func (b *batch) remove(r *request) {
	if i := slices.IndexFunc(b.items, func(it item) bool { return it.r == r }); i >= 0 {
		b.budget += b.items[i].tokens
		b.items = slices.Delete(b.items, i, i+1)
	}
}

func (l *Load) add(it item) {
	l.Tokens += it.tokens
	start := it.r.computed
	if it.tokens == 1 {
		l.DecodeContext += start + 1
		return
	}
	l.PrefillContext += float64(it.tokens) * (float64(start) + float64(it.tokens)/2)
}

func (s *Scheduler) planRunning(b *batch) {
	for i := 0; i < len(s.running) && b.budget > 0; {
		r := s.running[i]
		tokens := b.chunk(r.length() - r.computed)
		at, ok := s.makeRoom(b, r, tokens)
		if !ok {
			return
		}
		s.registerBlocks(r, r.computed+tokens)
		b.add(r, tokens)
		i = at + 1
	}
}

// makeRoom allocates blocks for a running request, preempting others until
// there are enough. It returns r's index afterwards, or false when r itself
// had to go.
func (s *Scheduler) makeRoom(b *batch, r *request, tokens int) (int, bool) {
	for !s.allocate(r, room{tokens: tokens}) {
		victim := s.running[len(s.running)-1]
		if s.cfg.Priority {
			victim = slices.MaxFunc(s.running, byPriority)
		}
		s.preempt(b, victim)
		if victim == r {
			return 0, false
		}
	}
	return slices.Index(s.running, r), true
}

// preempt throws a running request back: its blocks are freed (what is cached
// may survive until it returns) and everything is computed again.
func (s *Scheduler) preempt(b *batch, r *request) {
	i := slices.Index(s.running, r)
	s.running = slices.Delete(s.running, i, i+1)
	b.remove(r)
	b.preempted++
	b.again = true
	s.counters.Preemptions++
	s.pool.release(r.blocks)
	r.blocks, r.registered, r.computed = nil, 0, 0
	r.phase = preempted
	r.timing.Preemptions++
	s.enqueue(r)
}

// planLoaded admits requests whose prefix has arrived from the host tier; they
// hold blocks already and go before all others.
func (s *Scheduler) planLoaded(b *batch) {
	for _, r := range slices.Clone(s.loading) {
		if r.phase != loaded {
			continue
		}
		if b.budget == 0 || len(s.running) >= s.cfg.MaxNumSeqs {
			return
		}
		tokens := b.chunk(r.length() - r.computed)
		if !s.allocate(r, room{tokens: tokens, whole: !s.cfg.ChunkOnlyAdmission, headroom: s.headroom()}) {
			return
		}
		s.loading = slices.DeleteFunc(s.loading, func(x *request) bool { return x == r })
		s.admit(b, r, tokens)
	}
}

// planWaiting admits waiting requests in order and stops at the first that has
// no room, even if later ones would fit: vLLM's head-of-line blocking.
func (s *Scheduler) planWaiting(b *batch, now time.Time) {
	for len(s.waiting) > 0 && b.budget > 0 && len(s.running) < s.cfg.MaxNumSeqs {
		r := s.waiting[0]
		// The last token is always computed: its logits are the answer's first.
		reusable := r.hashes[:min((r.length()-1)/s.cfg.BlockSize, len(r.hashes))]
		hit := s.pool.lookup(reusable)
		local := len(hit) * s.cfg.BlockSize
		host := s.host.match(reusable[len(hit):])
		external := host * s.cfg.BlockSize
		q := room{hit: hit, external: external, whole: !s.cfg.ChunkOnlyAdmission, headroom: s.headroom()}
		if host > 0 {
			q.reserved = s.pending()
		} else {
			q.tokens = b.chunk(r.length() - local)
		}
		if !s.allocate(r, q) {
			return
		}
		s.waiting = slices.Delete(s.waiting, 0, 1)
		s.record(r, local, external)
		r.computed = local + external
		if host > 0 {
			r.phase = loading
			r.ready = s.host.load(reusable[len(hit):len(hit)+host], now)
			s.loading = append(s.loading, r)
			if !r.ready.After(now) {
				s.finishLoads(now)
				b.again = true
			}
			continue
		}
		s.admit(b, r, q.tokens)
	}
}

// headroom is what admissions leave free while others run.
func (s *Scheduler) headroom() int {
	if len(s.running) == 0 {
		return 0
	}
	return s.watermark
}

// record counts a cache lookup at a request's first admission; lookups after a
// preemption are left out, as in vLLM's metrics.
func (s *Scheduler) record(r *request, local, external int) {
	if r.timing.Preemptions > 0 {
		return
	}
	r.prefill = Prefill{Prompt: len(r.Prompt), Local: local, Host: external}
	if s.cfg.NoPrefixCache {
		return
	}
	s.counters.PrefixQueries += uint64(r.length())
	s.counters.PrefixHits += uint64(local)
	if s.cfg.Host.Tokens > 0 {
		s.counters.HostQueries += uint64(r.length() - local)
		s.counters.HostHits += uint64(external)
	}
}

func (s *Scheduler) admit(b *batch, r *request, tokens int) {
	r.phase = running
	s.running = append(s.running, r)
	if r.timing.Preemptions == 0 {
		b.load.Admitted++
		b.load.Cached += r.computed
	}
	s.registerBlocks(r, r.computed+tokens)
	b.add(r, tokens)
}
