package scan

import "math/bits"

// quoted is the inside of a JSON string as it stands in the body. Its four words
// are what Go passes in registers.
type quoted struct {
	raw     []byte
	slashes uint32 // backslashes in raw
	// variants: raw holds \uXXXX, the one escape in use for which there is
	// another way to write the same.
	variants bool
}

// quoted consumes a string and says what must be known of it. It looks at each
// byte once, and costs the same whatever the text: in source code an escape or
// an escaped quote comes every ten bytes, where a search for each costs more
// than the bytes that it skips.
func (c *cursor) quoted() quoted {
	if c.next() != '"' {
		c.fail()
		return quoted{}
	}
	start := c.pos + 1
	if start >= c.marked {
		c.mark(start)
	}
	var slashes int
	var variants, carry uint64
	inside := ^uint64(0) << (start + block - c.marked) // the bytes of the block from start on
	for {
		m := c.marks.within(inside)
		escaped, over := escapes(m.slashes, carry)
		if ends := m.quotes &^ escaped; ends != 0 {
			m = m.within(ends&-ends - 1)
			slashes += bits.OnesCount64(m.slashes)
			variants |= m.us & escaped
			end := c.marked - block + bits.TrailingZeros64(ends)
			c.pos = end + 1
			return quoted{c.src[start:end], uint32(slashes), variants != 0}
		}
		if c.marked >= len(c.src) {
			c.fail()
			return quoted{}
		}
		slashes += bits.OnesCount64(m.slashes)
		variants |= m.us & escaped
		carry, inside = over, ^uint64(0)
		c.mark(c.marked)
	}
}

// mark marks the block that begins at at, and takes what lies behind the end of
// the body for nothing.
func (c *cursor) mark(at int) {
	c.marked = at + block
	if at+block <= len(c.src) {
		mark((*[block]byte)(c.src[at:]), &c.marks)
		return
	}
	var last [block]byte
	copy(last[:], c.src[min(at, len(c.src)):])
	mark(&last, &c.marks)
}
