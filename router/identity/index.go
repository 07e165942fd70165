package identity

import (
	"cmp"
	"container/list"
	"encoding/binary"
	"time"
)

// Limits bound an Index. The zero value takes the defaults.
type Limits struct {
	// Conversations kept, 10,000.
	Conversations int
	// Turns kept per conversation, the newest 256, so that a rewind or a fork
	// from an older turn is still recognised.
	Turns int
	// TotalTurns kept, 524,288. It bounds the memory to about 30 MiB, and 15 more
	// if each conversation has a root of its own (TestIndexMemory).
	TotalTurns int
	// Idle time after which a conversation is forgotten, 60 minutes.
	Idle time.Duration
}

func (l Limits) withDefaults() Limits {
	if l.Conversations <= 0 {
		l.Conversations = 10_000
	}
	if l.Turns <= 0 {
		l.Turns = 256
	}
	if l.TotalTurns <= 0 {
		l.TotalTurns = 1 << 19
	}
	if l.Idle <= 0 {
		l.Idle = time.Hour
	}
	return l
}

// Index knows the conversations seen lately, by id and by content. It is a
// plain data structure without clock or lock: one caller at a time, with times
// that do not go back. It holds hashes and lengths, never ids or text.
type Index struct {
	limits Limits
	byKey  map[Key]*conversation
	byNum  map[uint32]*conversation
	recent *list.List // of *conversation, the latest first
	// turns maps the hash of a history to a conversation that went through it.
	turns map[uint64]turnRef
	// heads maps the hash of a history to the idle conversations that a request
	// continuing it would belong to, the longest idle first.
	heads map[uint64][]uint32
	roots map[uint64]*rootRef
	next  uint32 // number of the latest conversation
	total int    // turns kept
}

type turnRef struct {
	conversation uint32 // the latest that went through, 0 when it is gone
	through      uint32 // how many did
}

type rootRef struct {
	shape         *shape // shared by all of them
	conversations int
}

// NewIndex returns an empty Index.
func NewIndex(l Limits) *Index {
	return &Index{
		limits: l.withDefaults(),
		byKey:  map[Key]*conversation{},
		byNum:  map[uint32]*conversation{},
		recent: list.New(),
		turns:  map[uint64]turnRef{},
		heads:  map[uint64][]uint32{},
		roots:  map[uint64]*rootRef{},
	}
}

// Len is the number of conversations known.
func (x *Index) Len() int { return x.recent.Len() }

// Ending says how a request ended.
type Ending int

const (
	// Done: the client got the whole answer.
	Done Ending = iota
	// Failed: it got an error or a broken stream.
	Failed
	// Aborted: it left before the end.
	Aborted
)

// Resolve says which conversation a request belongs to and notes that it has
// begun. Each Resolve needs one Finish.
func (x *Index) Resolve(id Identity, now time.Time) Resolution {
	x.expire(now)
	if id.Class == Auxiliary || id.Key.IsZero() && len(id.chain) == 0 {
		return Resolution{Kind: KindNone}
	}
	r := x.decide(&id)
	c := x.byKey[r.Key]
	if c == nil {
		c = x.add(r.Key, now)
	}
	x.recent.MoveToFront(c.place)
	x.begin(c, &id, now)
	r.Busy = c.inFlight > 1
	r.number, r.attempt = c.number, c.attempt
	x.shrink()
	return r
}

// Finish notes that the request of a Resolve has ended.
func (x *Index) Finish(r Resolution, how Ending, now time.Time) {
	c := x.byNum[r.number]
	if c == nil {
		return
	}
	c.seen = now
	x.recent.MoveToFront(c.place)
	x.unwait(c)
	c.inFlight--
	if r.attempt == c.attempt {
		c.failed = how != Done
		if !c.failed {
			c.settled = c.turns()
		}
	}
	x.wait(c)
}

// mint names a conversation that has no id: by its beginning and a running
// number, since equal beginnings are common.
func (x *Index) mint(id *Identity) Key {
	if !id.hint.IsZero() {
		return id.hint
	}
	var b [28]byte
	binary.LittleEndian.PutUint64(b[0:], id.scope)
	binary.LittleEndian.PutUint64(b[8:], id.chain[0])
	binary.LittleEndian.PutUint64(b[16:], uint64(len(id.chain)))
	binary.LittleEndian.PutUint32(b[24:], x.next+1)
	return newKey("content", string(b[:]))
}

func (x *Index) add(key Key, now time.Time) *conversation {
	for x.next++; x.next == 0 || x.byNum[x.next] != nil; {
		x.next++
	}
	c := &conversation{key: key, number: x.next, seen: now}
	x.byKey[key], x.byNum[c.number] = c, c
	c.place = x.recent.PushFront(c)
	return c
}

// begin makes the request the conversation's latest.
func (x *Index) begin(c *conversation, id *Identity, now time.Time) {
	x.unwait(c)
	c.seen = now
	c.attempt++
	c.inFlight++
	c.window = id.window
	if len(id.chain) == 0 {
		return // too large or not readable: what is known stays
	}
	x.setRoot(c, id)
	keep := c.shared(id)
	x.drop(c, c.values[max(0, keep-c.base):])
	c.values = c.values[:max(0, keep-c.base)]
	if len(c.values) == 0 {
		c.base = max(0, len(id.chain)-x.limits.Turns)
	}
	for i := c.turns(); i < len(id.chain); i++ {
		c.values = append(c.values, id.value(i))
		x.enter(c, id.value(i))
	}
	if extra := len(c.values) - x.limits.Turns; extra > 0 {
		x.drop(c, c.values[:extra])
		c.values = append(c.values[:0], c.values[extra:]...)
		c.base += extra
	}
	c.settled = min(c.settled, keep)
	c.open = id.outline.open
	c.billing, c.systemTurns = id.outline.billing, id.outline.systemTurns
}

func (x *Index) setRoot(c *conversation, id *Identity) {
	root := id.scoped(id.Root)
	if c.shape != nil {
		if c.root == root {
			return
		}
		x.leaveRoot(c)
	}
	ref := x.roots[root]
	if ref == nil {
		ref = &rootRef{shape: cmp.Or(id.outline.shape, &shape{unknown: true})}
		x.roots[root] = ref
	}
	ref.conversations++
	c.root, c.shape = root, ref.shape
}

func (x *Index) leaveRoot(c *conversation) {
	if ref := x.roots[c.root]; ref != nil {
		if ref.conversations--; ref.conversations == 0 {
			delete(x.roots, c.root)
		}
	}
}

// RootKnown reports whether some conversation with the same root is known. If
// not, Resolve wants an Identity that was described.
func (x *Index) RootKnown(id *Identity) bool {
	return len(id.chain) > 0 && x.roots[id.scoped(id.Root)] != nil
}

// enter notes that c went through a history.
func (x *Index) enter(c *conversation, value uint64) {
	ref := x.turns[value]
	ref.conversation = c.number
	ref.through++
	x.turns[value] = ref
	x.total++
}

// drop takes c off histories that it went through.
func (x *Index) drop(c *conversation, values []uint64) {
	for _, v := range values {
		ref := x.turns[v]
		if ref.through <= 1 {
			delete(x.turns, v)
			continue
		}
		ref.through--
		if ref.conversation == c.number {
			ref.conversation = 0
		}
		x.turns[v] = ref
	}
	x.total -= len(values)
}

func (x *Index) expire(now time.Time) {
	for x.recent.Len() > 0 {
		c := x.recent.Back().Value.(*conversation)
		if c.inFlight > 0 || now.Sub(c.seen) < x.limits.Idle {
			return
		}
		x.remove(c)
	}
}

// shrink keeps the Index within its limits; the latest conversation stays.
func (x *Index) shrink() {
	for x.recent.Len() > x.limits.Conversations || x.total > x.limits.TotalTurns && x.recent.Len() > 1 {
		x.remove(x.recent.Back().Value.(*conversation))
	}
}

func (x *Index) remove(c *conversation) {
	x.unwait(c)
	x.drop(c, c.values)
	if c.shape != nil {
		x.leaveRoot(c)
	}
	x.recent.Remove(c.place)
	delete(x.byKey, c.key)
	delete(x.byNum, c.number)
}
