package core

import (
	"container/list"
	"fmt"
	"time"
)

// Host describes the second tier: prompt blocks are copied to host memory as
// they are computed, and a prefix that the KV blocks have lost is loaded back
// instead of computed (vLLM's --kv-offloading-size, native backend).
type Host struct {
	// Tokens is the capacity; 0 switches the tier off.
	Tokens int
	// TokensPerSecond is the load rate. Loads share one PCIe link, so they
	// queue behind each other; 0 means instantly.
	TokensPerSecond float64
	// Latency is the fixed part of one load.
	Latency time.Duration
}

func (h Host) validate() error {
	if h.Tokens < 0 || h.TokensPerSecond < 0 || h.Latency < 0 {
		return fmt.Errorf("host tier of %d tokens at %v tokens/s with latency %v must not be negative", h.Tokens, h.TokensPerSecond, h.Latency)
	}
	return nil
}

// tier is the state of the host tier: an LRU of block hashes. Contents are not
// kept, since a hash stands for them.
type tier struct {
	host   Host
	blocks int // capacity
	size   int // tokens per block
	order  list.List
	byHash map[uint64]*list.Element
	busy   time.Time // the link is taken until then
}

func newTier(h Host, blockSize int) *tier {
	return &tier{host: h, blocks: h.Tokens / blockSize, size: blockSize, byHash: make(map[uint64]*list.Element)}
}

// store remembers a block that has just been computed.
func (t *tier) store(hash uint64) {
	if t.blocks == 0 {
		return
	}
	if e, ok := t.byHash[hash]; ok {
		t.order.MoveToBack(e)
		return
	}
	for t.order.Len() >= t.blocks {
		oldest := t.order.Front()
		delete(t.byHash, oldest.Value.(uint64))
		t.order.Remove(oldest)
	}
	t.byHash[hash] = t.order.PushBack(hash)
}

// match returns how many blocks, from the first on, the tier holds.
func (t *tier) match(hashes []uint64) int {
	for i, h := range hashes {
		if _, ok := t.byHash[h]; !ok {
			return i
		}
	}
	return len(hashes)
}

// load starts to copy blocks to the device and returns when they are there.
func (t *tier) load(hashes []uint64, now time.Time) time.Time {
	for _, h := range hashes {
		t.order.MoveToBack(t.byHash[h])
	}
	start := now
	if t.busy.After(start) {
		start = t.busy
	}
	t.busy = start.Add(t.host.Latency)
	if t.host.TokensPerSecond > 0 {
		seconds := float64(len(hashes)*t.size) / t.host.TokensPerSecond
		t.busy = t.busy.Add(time.Duration(seconds * float64(time.Second)))
	}
	return t.busy
}
