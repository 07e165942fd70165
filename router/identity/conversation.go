package identity

import (
	"container/list"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/identity/scan"
)

// conversation is what an Index keeps of one.
type conversation struct {
	key    Key
	number uint32
	place  *list.Element
	seen   time.Time

	inFlight int
	attempt  uint32 // number of the latest request
	failed   bool   // the latest request ended badly
	settled  int    // turns of the latest request that ended well and is still part of the history

	root   uint64
	shape  *shape
	base   int      // turn that values[0] stands for
	values []uint64 // hashes of the histories up to each turn, the newest Limits.Turns
	open   bool     // see scan.Body.Open

	window      int
	billing     uint64
	systemTurns int

	waits []uint64 // where it stands in Index.heads
}

// turns is the number of turns in the latest request.
func (c *conversation) turns() int { return c.base + len(c.values) }

// last is the hash of the whole latest request, 0 when none was readable.
func (c *conversation) last() uint64 {
	if len(c.values) == 0 {
		return 0
	}
	return c.values[len(c.values)-1]
}

// shared is the number of leading turns that a request has in common with the
// latest one; 0 when they part before the oldest turn that is kept. Hashes
// cover all before them, so equality is monotone and can be bisected.
func (c *conversation) shared(id *Identity) int {
	limit := min(c.turns(), len(id.chain))
	if limit <= c.base || c.values[0] != id.value(c.base) {
		return 0
	}
	low, high := c.base+1, limit // shared is within low to high
	for low < high {
		mid := (low + high + 1) / 2
		if c.values[mid-1-c.base] == id.value(mid-1) {
			low = mid
		} else {
			high = mid - 1
		}
	}
	return low
}

// scoped keeps equal content of different models or API keys apart.
func (id *Identity) scoped(v uint64) uint64 { return scan.Fold(id.scope, v) }

// value is the scoped hash of the history up to turn i.
func (id *Identity) value(i int) uint64 { return id.scoped(id.chain[i]) }

// wait files an idle conversation under the histories that a request without
// id would have to continue to belong to it: the latest request's; when that
// ended badly, also those back to the last good one; when its last turn may
// grow, also the one before.
func (x *Index) wait(c *conversation) {
	if c.inFlight > 0 {
		return
	}
	last := c.turns() - 1
	first := last
	if c.open {
		first = max(0, last-1)
	}
	if c.failed && c.settled > 0 {
		first = min(first, c.settled-1)
	}
	for i := max(first, c.base); i <= last; i++ {
		v := c.values[i-c.base]
		c.waits = append(c.waits, v)
		x.heads[v] = append(x.heads[v], c.number)
	}
}

func (x *Index) unwait(c *conversation) {
	for _, v := range c.waits {
		rest := x.heads[v]
		if i := slices.Index(rest, c.number); i >= 0 {
			rest = slices.Delete(rest, i, i+1)
		}
		if len(rest) == 0 {
			delete(x.heads, v)
		} else {
			x.heads[v] = rest
		}
	}
	c.waits = c.waits[:0]
}
