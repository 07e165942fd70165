package placement

// prefixCache is our belief of what one engine's prefix cache holds. It follows
// the engine's rule: what was used last is dropped last, running requests are
// never dropped, and of one conversation the end goes before the beginning
// (vllm/v1/core/block_pool.py and kv_cache_manager.py free tail blocks first).
type prefixCache struct {
	capacity int // tokens; 0 when not known, then nothing is ever dropped
	used     int // tokens held, pinned ones included
	head     *holding
	tail     *holding
}

// holding is a run of tokens that one owner has in one cache: a conversation
// without its shared prefix, or a shared prefix.
type holding struct {
	session *session // nil for a shared prefix
	root    *root    // set for a shared prefix
	replica *replica
	tokens  int
	host    bool // in the host tier, not in the KV cache
	pins    int  // running requests that use it; while pinned it is in no list

	prev, next *holding
}

// maxHoldings bounds the copies remembered of one conversation. A conversation
// that spilled has two; more are leftovers of failovers.
const maxHoldings = 4

// holding returns s's holding on r, or nil.
func (s *session) holding(r *replica) *holding {
	if s == nil {
		return nil
	}
	for _, h := range s.holdings {
		if h.replica == r {
			return h
		}
	}
	return nil
}

// newHolding starts a holding of s on r. The oldest copy elsewhere is forgotten
// when there are too many; copies in processes that have ended go first.
func (s *session) newHolding(r *replica) *holding {
	for i := 0; i < len(s.holdings); {
		h := s.holdings[i]
		if h.pins == 0 && (h.replica.gone || len(s.holdings) >= maxHoldings) {
			h.drop()
			continue
		}
		i++
	}
	h := &holding{session: s, replica: r}
	s.holdings = append(s.holdings, h)
	return h
}

// pin marks h as used by a running request that will need tokens of it.
func (c *prefixCache) pin(h *holding, tokens int) {
	if h.pins == 0 {
		c.unlink(h)
	}
	h.pins++
	c.resize(h, max(h.tokens, tokens))
	c.shrink()
}

// unpin ends one use of h, which then holds exactly tokens.
func (c *prefixCache) unpin(h *holding, tokens int) {
	h.pins--
	c.resize(h, tokens)
	if h.pins == 0 {
		c.pushFront(h)
	}
	c.shrink()
}

func (c *prefixCache) resize(h *holding, tokens int) {
	c.used += tokens - h.tokens
	h.tokens = tokens
}

// shrink drops least recently used tokens until the cache is within its
// capacity, or only pinned tokens are left.
func (c *prefixCache) shrink() {
	for c.capacity > 0 && c.used > c.capacity && c.tail != nil {
		h := c.tail
		take := min(c.used-c.capacity, h.tokens)
		c.resize(h, h.tokens-take)
		if h.tokens == 0 {
			c.remove(h)
			h.forget()
		}
	}
}

// dropped calls visit for what adding n tokens would drop, least recently used
// first, at most limit holdings: more would not change a decision.
func (c *prefixCache) dropped(n, limit int, visit func(h *holding, tokens int)) {
	over := c.used + n - c.capacity
	if c.capacity == 0 {
		return
	}
	for h := c.tail; h != nil && over > 0 && limit > 0; h, limit = h.prev, limit-1 {
		take := min(over, h.tokens)
		visit(h, take)
		over -= take
	}
}

// remove takes h out of the cache; its owner still points at it.
func (c *prefixCache) remove(h *holding) {
	if h.pins == 0 {
		c.unlink(h)
	}
	c.used -= h.tokens
	h.tokens = 0
}

// drop takes h out of its cache and from its owner.
func (h *holding) drop() {
	if h.host {
		h.replica.host.remove(h)
	} else {
		h.replica.cache.remove(h)
	}
	h.forget()
}

// forget takes h from its owner.
func (h *holding) forget() {
	switch {
	case h.host:
		h.session.hosted = nil
	case h.session != nil:
		s := h.session
		for i, o := range s.holdings {
			if o == h {
				s.holdings = append(s.holdings[:i], s.holdings[i+1:]...)
				return
			}
		}
	case h.root != nil:
		delete(h.root.holdings, h.replica)
	}
}

// clear forgets everything: the process has ended.
func (c *prefixCache) clear() {
	for h := c.head; h != nil; h = c.head {
		c.remove(h)
		h.forget()
	}
}

func (c *prefixCache) linked(h *holding) bool {
	return h.prev != nil || h.next != nil || c.head == h
}

func (c *prefixCache) pushFront(h *holding) {
	h.prev, h.next = nil, c.head
	if c.head != nil {
		c.head.prev = h
	} else {
		c.tail = h
	}
	c.head = h
}

func (c *prefixCache) unlink(h *holding) {
	if !c.linked(h) {
		return
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else {
		c.head = h.next
	}
	if h.next != nil {
		h.next.prev = h.prev
	} else {
		c.tail = h.prev
	}
	h.prev, h.next = nil, nil
}
