package scan

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// Content is compared by 64-bit hashes: with a million values remembered, one
// that is looked up equals a wrong one by chance about once in 10^13 times, and
// the cost is one placement.

// maxDepth bounds the recursion of the canonical hashes. Deeper values are
// hashed as they are written. No client nests tool arguments this deep.
const maxDepth = 32

// Fold appends x to the ordered sequence that h stands for. A sequence may begin
// with any number. Sums of what it returns do not cancel.
func Fold(h, x uint64) uint64 { return scatter(h*0x9e3779b97f4a7c15 + x) }

// scatter is the finaliser of MurmurHash3: a bijection in which each bit
// depends on all others.
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
	tagTools // begins the way along them in a Memo
)

// hasher turns string values into hashes. Its buffer bounds the memory that a
// string with escapes costs; only arguments, which are JSON again, are decoded as
// a whole.
type hasher struct {
	digest    xxhash.Digest
	buffer    []byte
	arguments []byte // of the latest call, decoded
}

// hasherBuffer fits the first-level cache of any processor.
const hasherBuffer = 4 << 10

// hashText hashes a JSON string's inside and returns about how many bytes it
// decodes to. How a client escapes its text does not matter: characters given
// as \uXXXX count as if written out, which is how most clients write them, so
// that most text can be hashed as it stands.
func (h *hasher) hashText(q quoted) (uint64, int) {
	if !q.variants {
		return xxhash.Sum64(q.raw), decodedLen(len(q.raw), int(q.slashes))
	}
	h.digest.Reset()
	size, slashes := 0, 0
	for raw := q.raw; len(raw) > 0; {
		h.buffer, raw = plainPart(h.buffer[:0], raw, hasherBuffer)
		h.digest.Write(h.buffer)
		size += len(h.buffer)
		slashes += bytes.Count(h.buffer, []byte{'\\'})
	}
	return h.digest.Sum64(), decodedLen(size, slashes)
}

// decodedLen estimates the length of a text from its escaped form. Most
// escapes are two bytes for one; a text of backslashes alone halves.
func decodedLen(size, slashes int) int { return max(size-slashes, (size+1)/2) }

// hashValue consumes any JSON value and hashes it with object members in any
// order: clients that store a tool's arguments decoded write them back in
// another order.
func (h *hasher) hashValue(c *cursor, depth int) uint64 {
	b := c.next()
	if b == '"' {
		sum, _ := h.hashText(c.quoted())
		return Fold(tagText, sum)
	}
	if depth == 0 || b != '{' && b != '[' {
		return xxhash.Sum64(c.skip().of(c.src))
	}
	if b == '[' {
		sum := tagArray
		c.elements(func() { sum = Fold(sum, h.hashValue(c, depth-1)) })
		return sum
	}
	var sum uint64
	c.members(func(key []byte) {
		k := xxhash.Sum64(key)
		sum += Fold(k, h.hashValue(c, depth-1))
	})
	return Fold(tagObject, sum)
}

// hashArguments hashes a string that ought to hold JSON (OpenAI's form of tool
// arguments) as that JSON, so that spacing and order do not matter.
func (h *hasher) hashArguments(q quoted) (uint64, int) {
	decoded := q.raw
	if q.slashes > 0 {
		if cap(h.arguments) < len(q.raw) {
			h.arguments = make([]byte, 0, len(q.raw))
		}
		h.arguments = unescape(h.arguments[:0], q.raw)
		decoded = h.arguments
	}
	inner := cursor{src: decoded}
	sum := h.hashValue(&inner, maxDepth)
	if inner.next() != 0 || inner.bad {
		sum = xxhash.Sum64(decoded)
	}
	return sum, len(decoded)
}
