package identity

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"strings"
	"unicode/utf8"

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

// plainPart appends raw to dst with each \uXXXX replaced by the character, or
// by its shorter escape where JSON demands one. It stops once
// dst holds limit bytes or a few more, and returns what is left.
func plainPart(dst, raw []byte, limit int) (out, rest []byte) {
	for len(dst) < limit && len(raw) > 0 {
		if i := plainLen(raw); i > 0 {
			i = min(i, limit-len(dst))
			dst, raw = append(dst, raw[:i]...), raw[i:]
			continue
		}
		if raw[1] == 'u' {
			r, used := unescapeRune(raw)
			dst, raw = appendPlain(dst, r), raw[used:]
		} else {
			dst, raw = append(dst, raw[:2]...), raw[2:]
		}
	}
	return dst, raw
}

// plainLen is the number of bytes before the first escape. In source code that
// is near, so eight bytes are looked at before a search is begun.
func plainLen(raw []byte) int {
	if len(raw) > 8 {
		if n := plainBytes(binary.LittleEndian.Uint64(raw)); n < 8 {
			return n
		}
	}
	if i := bytes.IndexByte(raw, '\\'); i >= 0 && i+1 < len(raw) {
		return i
	}
	return len(raw)
}

// plainBytes is the number of bytes before the first backslash among eight.
func plainBytes(x uint64) int {
	const ones = 0x0101010101010101
	x ^= ones * '\\'
	return bits.TrailingZeros64((x-ones)&^x&(ones<<7)) / 8
}

func appendPlain(dst []byte, r rune) []byte {
	const hex = "0123456789abcdef"
	switch {
	case r == '"', r == '\\':
		return append(dst, '\\', byte(r))
	case r >= 0x20:
		return utf8.AppendRune(dst, r)
	}
	if i := strings.IndexRune("\n\t\r\b\f", r); i >= 0 {
		return append(dst, '\\', "ntrbf"[i])
	}
	return append(dst, `\u00`+hex[r>>4:r>>4+1]+hex[r&15:r&15+1]...)
}

// hashValue consumes any JSON value and hashes it with object members in any
// order: clients that store a tool's arguments decoded write them back in
// another order.
func (h *hasher) hashValue(c *cursor, depth int) uint64 {
	b := c.next()
	if b == '"' {
		sum, _ := h.hashText(c.quoted())
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
