// Package shadow is our belief of what a cache holds that we cannot look into:
// an engine's prefix cache, or its second tier in host memory. It follows the
// engine's rule: what was used last is dropped last, running requests are never
// dropped, and of one conversation the end goes before the beginning
// (vllm/v1/core/block_pool.py and kv_cache_manager.py free tail blocks first).
//
// Reader's path: a Holding begins with New, is in use between Pin and Unpin, and
// ends when Cache needs its room or with Drop; then its Owner is told to forget
// it.
package shadow

import "github.com/lm-warden/warden/router/placement/list"

// Owner is whom a holding belongs to: a conversation, or a prefix that several
// share.
type Owner interface {
	// Forget tells that h holds nothing any more.
	Forget(h *Holding)
}

// Holding is a run of tokens that one owner has in one cache.
type Holding struct {
	Owner  Owner
	cache  *Cache
	tokens int
	pins   int // running requests that use it; while pinned it is in no list
	place  list.Node[*Holding]
}

// Cache is the shadow of one cache. The zero value is empty and of unknown size.
type Cache struct {
	capacity int  // tokens; 0 when not known, then nothing is ever dropped
	used     int  // tokens held, pinned ones included
	closed   bool // the process has ended: what is unpinned is gone
	idle     list.List[*Holding]
}

// Used is the tokens held, those of running requests included.
func (c *Cache) Used() int { return c.used }

// SetCapacity says how many tokens fit, 0 when it is not known.
func (c *Cache) SetCapacity(tokens int) {
	c.capacity = tokens
	c.shrink()
}

// New starts a holding of owner, empty and in no use. It counts as used now.
func (c *Cache) New(owner Owner) *Holding {
	h := &Holding{Owner: owner, cache: c}
	h.place.Value = h
	c.idle.PushFront(&h.place)
	return h
}

// Cache is where h is.
func (h *Holding) Cache() *Cache { return h.cache }

// Tokens is how many of the owner's tokens the cache holds.
func (h *Holding) Tokens() int { return h.tokens }

// Pinned reports that a running request uses h.
func (h *Holding) Pinned() bool { return h.pins > 0 }

// Pin marks h as used by a running request that will need tokens of it.
func (h *Holding) Pin(tokens int) {
	if h.pins == 0 {
		h.cache.idle.Remove(&h.place)
	}
	h.pins++
	h.Resize(max(h.tokens, tokens))
	h.cache.shrink()
}

// Unpin ends one use of h, which then holds exactly tokens.
func (h *Holding) Unpin(tokens int) {
	c := h.cache
	h.pins--
	h.Resize(tokens)
	if h.pins == 0 {
		c.idle.PushFront(&h.place)
		if c.closed {
			h.Drop()
		}
	}
	c.shrink()
}

// Resize corrects what h, which is pinned, is believed to hold.
func (h *Holding) Resize(tokens int) {
	h.cache.used += tokens - h.tokens
	h.tokens = tokens
}

// Drop ends h.
func (h *Holding) Drop() {
	if h.pins == 0 {
		h.cache.idle.Remove(&h.place)
	}
	h.Resize(0)
	h.Owner.Forget(h)
}

// shrink drops least recently used tokens until the cache is within its
// capacity, or only pinned tokens are left.
func (c *Cache) shrink() {
	for c.capacity > 0 && c.used > c.capacity && c.idle.Back() != nil {
		h := c.idle.Back().Value
		h.Resize(h.tokens - min(c.used-c.capacity, h.tokens))
		if h.tokens == 0 {
			h.Drop()
		}
	}
}

// Displaced calls visit for what adding n tokens would drop, least recently used
// first, at most limit holdings: more would not change a decision.
func (c *Cache) Displaced(n, limit int, visit func(h *Holding, tokens int)) {
	if c.capacity == 0 {
		return
	}
	over := c.used + n - c.capacity
	for at := c.idle.Back(); at != nil && over > 0 && limit > 0; at, limit = at.Prev(), limit-1 {
		h := at.Value
		take := min(over, h.tokens)
		visit(h, take)
		over -= take
	}
}

// Close forgets everything: the process has ended. Running requests have their
// holdings until they end.
func (c *Cache) Close() {
	c.closed = true
	for at := c.idle.Front(); at != nil; at = c.idle.Front() {
		at.Value.Drop()
	}
}
