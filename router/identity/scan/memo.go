package scan

import (
	"hash/maphash"
	"sync/atomic"
)

// Memo remembers what turns and tools were found to say, by the bytes that they
// stood in. Agents send the whole history again with each turn: all of it but the
// end has been read before, and is only compared here. Requests may use one Memo
// at the same time; nil remembers nothing.
//
// A turn is looked for where it was the last time: behind the turn before it. So
// where it ends need not be searched, and conversations with a common beginning
// share what is known of that. The same holds for tools.
type Memo struct {
	seed  maphash.Seed
	slots [memoSlots]atomic.Pointer[memoEntry]
}

// memoSlots is how many of them are remembered, each in 80 bytes: those of a
// hundred conversations of agents. One takes the place of another by chance.
const memoSlots = 1 << 15

// memoEntry is a turn or a tool. It is never changed.
type memoEntry struct {
	before uint64 // what stood before it
	raw    uint64 // hash of its bytes
	length int    // of them
	facts
}

// facts are what a turn says, but where its texts lie, or a tool.
type facts struct {
	sum       uint64 // as node.hash; of a tool its definition
	name      uint64 // of a tool
	counts    bool   // ok of node.hash
	by        role
	size      int
	reasoning int // parts, and whether it is one itself
	images    int
}

// NewMemo returns an empty Memo.
func NewMemo() *Memo { return &Memo{seed: maphash.MakeSeed()} }

// Scan is the function of that name, and remembers what it read. The Body is the
// same.
func (m *Memo) Scan(path string, body []byte) *Body { return scan(m, path, body) }

// memoWalk is the way along the turns or the tools of one body. The zero value
// remembers nothing.
type memoWalk struct {
	memo   *Memo
	before uint64 // hash of the bytes of all entries so far
	next   *atomic.Pointer[memoEntry]
}

// memoLeast is the length from which on a comparison is cheaper than reading, in
// bytes.
const memoLeast = 64

// known returns the entry that rest begins with, if it is what stood there the last
// time.
func (w *memoWalk) known(rest []byte) *memoEntry {
	if w.memo == nil {
		return nil
	}
	w.next = &w.memo.slots[scatter(w.before)%memoSlots]
	t := w.next.Load()
	if t == nil || t.before != w.before || t.length > len(rest) || t.raw != w.hash(rest[:t.length]) {
		return nil
	}
	w.before = Fold(w.before, t.raw)
	return t
}

func (w *memoWalk) hash(raw []byte) uint64 { return maphash.Bytes(w.memo.seed, raw) }

// keep remembers what was read instead.
func (w *memoWalk) keep(raw []byte, f facts, whole bool) {
	if w.memo == nil {
		return
	}
	hash := w.hash(raw)
	if whole && len(raw) >= memoLeast {
		w.next.Store(&memoEntry{w.before, hash, len(raw), f})
	}
	w.before = Fold(w.before, hash)
}
