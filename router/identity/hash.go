package identity

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Content is compared by 64-bit hashes: with a million values remembered, two
// different histories meet by chance about once in 10^7 requests, and the
// cost is one placement.

// maxDepth bounds the recursion of the canonical hashes. Deeper values are
// hashed as they are written. No client nests tool arguments this deep.
const maxDepth = 32

// fold appends x to the ordered sequence that h stands for.
func fold(h, x uint64) uint64 { return scatter(h*0x9e3779b97f4a7c15 + x) }

// scatter is the finaliser of MurmurHash3: a bijection in which each bit
// depends on all others, so that sums of scattered values do not cancel.
func scatter(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	x *= 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Tags keep values of different kinds apart.
const (
	tagText uint64 = iota + 1
	tagObject
	tagArray
	tagRoot
	tagSalt
)

// hasher turns string values into hashes. Its buffer bounds the memory that a
// string with escapes costs.
type hasher struct {
	digest xxhash.Digest
	buffer []byte
}

// hasherBuffer fits the first-level cache of any processor.
const hasherBuffer = 4 << 10

// hashText hashes a JSON string's inside in decoded form and returns the decoded
// length in bytes: how a client escapes its text does not matter.
func (h *hasher) hashText(raw []byte) (uint64, int) {
	if bytes.IndexByte(raw, '\\') < 0 {
		return xxhash.Sum64(raw), len(raw)
	}
	h.digest.Reset()
	size := 0
	for len(raw) > 0 {
		h.buffer, raw = unescapePart(h.buffer[:0], raw, hasherBuffer)
		h.digest.Write(h.buffer)
		size += len(h.buffer)
	}
	return h.digest.Sum64(), size
}

// hashValue consumes any JSON value and hashes it with object members in any
// order: clients that store a tool's arguments decoded write them back in
// another order.
func (h *hasher) hashValue(c *cursor, depth int) uint64 {
	b := c.next()
	if b == '"' {
		sum, _ := h.hashText(c.str())
		return fold(tagText, sum)
	}
	if depth == 0 || b != '{' && b != '[' {
		return xxhash.Sum64(c.skip().of(c.src))
	}
	if b == '[' {
		sum := tagArray
		c.elements(func() { sum = fold(sum, h.hashValue(c, depth-1)) })
		return sum
	}
	var sum uint64
	c.members(func(key []byte) {
		k := xxhash.Sum64(key)
		sum += fold(k, h.hashValue(c, depth-1))
	})
	return fold(tagObject, sum)
}

// hashArguments hashes a string that ought to hold JSON (OpenAI's form of tool
// arguments) as that JSON, so that spacing and order do not matter.
func (h *hasher) hashArguments(raw []byte) (uint64, int) {
	decoded := raw
	if bytes.IndexByte(raw, '\\') >= 0 {
		decoded = unescape(make([]byte, 0, len(raw)), raw)
	}
	inner := cursor{src: decoded}
	sum := h.hashValue(&inner, maxDepth)
	if inner.next() != 0 || inner.bad {
		sum = xxhash.Sum64(decoded)
	}
	return sum, len(decoded)
}
