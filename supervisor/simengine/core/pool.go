package core

// block is one KV block. It is either referenced by requests or in the free
// list; a free block may still hold a prefix that the next request can reuse.
type block struct {
	refs       int
	hash       uint64
	hashed     bool
	prev, next *block // free list; both nil while referenced
	twin       *block // next block with the same hash, in order of registration
}

// pool owns all blocks of a replica (vllm/v1/core/block_pool.py). The free
// list is an LRU: taken from the front, and what may be reused joins the back.
type pool struct {
	usable  int
	caching bool
	cached  map[uint64]*block
	free    block // sentinel of the ring
	freeN   int
}

func newPool(usable int, caching bool) *pool {
	p := &pool{usable: usable, caching: caching, cached: make(map[uint64]*block)}
	p.free.prev, p.free.next = &p.free, &p.free
	blocks := make([]block, usable)
	for i := range blocks {
		p.insert(&blocks[i], p.free.prev)
	}
	return p
}

// insert puts b behind at.
func (p *pool) insert(b, at *block) {
	b.prev, b.next = at, at.next
	at.next.prev, at.next = b, b
	p.freeN++
}

func (p *pool) unlink(b *block) {
	b.prev.next, b.next.prev = b.next, b.prev
	b.prev, b.next = nil, nil
	p.freeN--
}

// lookup returns the longest run of cached blocks for a hash chain.
func (p *pool) lookup(hashes []uint64) []*block {
	if !p.caching {
		return nil
	}
	var hit []*block
	for _, h := range hashes {
		b, ok := p.cached[h]
		if !ok {
			break
		}
		hit = append(hit, b)
	}
	return hit
}

// evictable counts the blocks that touch would take out of the free list.
func evictable(blocks []*block) int {
	n := 0
	for _, b := range blocks {
		if b.refs == 0 {
			n++
		}
	}
	return n
}

// touch adds one reference to each block, reviving the free ones.
func (p *pool) touch(blocks []*block) {
	for _, b := range blocks {
		if b.refs == 0 {
			p.unlink(b)
		}
		b.refs++
	}
}

// take hands out n blocks from the front of the free list and forgets what
// they held. The caller has checked that n are free.
func (p *pool) take(n int) []*block {
	taken := make([]*block, n)
	for i := range taken {
		b := p.free.next
		p.unlink(b)
		p.forget(b)
		b.refs = 1
		taken[i] = b
	}
	return taken
}

// release drops one reference from each block of a request, given from its
// first block to its last. The last is evicted first, so that a conversation
// loses its end before its beginning. Blocks that can never be reused go to
// the front and are taken next.
func (p *pool) release(blocks []*block) {
	front := &p.free
	for i := len(blocks) - 1; i >= 0; i-- {
		b := blocks[i]
		b.refs--
		switch {
		case b.refs > 0:
		case b.hashed && p.caching:
			p.insert(b, p.free.prev)
		default:
			p.insert(b, front)
			front = b
		}
	}
}

// register makes a full block findable under its hash.
func (p *pool) register(b *block, hash uint64) {
	if !p.caching {
		return
	}
	b.hash, b.hashed, b.twin = hash, true, nil
	first, ok := p.cached[hash]
	if !ok {
		p.cached[hash] = b
		return
	}
	for first.twin != nil {
		first = first.twin
	}
	first.twin = b
}

// forget removes a block from the prefix cache.
func (p *pool) forget(b *block) {
	if !b.hashed {
		return
	}
	first := p.cached[b.hash]
	switch {
	case first == b && b.twin == nil:
		delete(p.cached, b.hash)
	case first == b:
		p.cached[b.hash] = b.twin
	default:
		for first.twin != b {
			first = first.twin
		}
		first.twin = b.twin
	}
	b.hash, b.hashed, b.twin = 0, false, nil
}

// used is the share of blocks that running requests reference, 0 to 1. An idle
// conversation's cached prefix counts as free, as in vLLM.
func (p *pool) used() float64 { return 1 - float64(p.freeN)/float64(p.usable) }
