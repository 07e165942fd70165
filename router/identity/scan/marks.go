package scan

import "encoding/binary"

// block is how many bytes are looked at together: as many as a word has bits.
const block = 64

// marks say what stands where in a block: bit i is its byte i.
type marks struct{ quotes, slashes, us uint64 }

// within are the marks at the bytes of a mask.
func (m marks) within(mask uint64) marks {
	return marks{m.quotes & mask, m.slashes & mask, m.us & mask}
}

// markPlain is mark in plain Go. It takes eight bytes at a time, in an ordinary
// register: those that are not the wanted character have their top bit set after
//
//	(x & low) + low | x    where x is the bytes XOR that character
//
// and a multiplication gathers the eight top bits in the top byte.
func markPlain(b *[block]byte, m *marks) {
	const (
		ones   = 0x0101010101010101
		low    = ones * 0x7f
		high   = ones * 0x80
		gather = 0x0002040810204081
		top    = 0xff << 56
	)
	others := func(x uint64) uint64 { return (((x & low) + low | x) & high) * gather & top }
	var quotes, slashes, us uint64
	for i := 0; i < block; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		quotes = quotes>>8 | others(x^ones*'"')
		slashes = slashes>>8 | others(x^ones*'\\')
		us = us>>8 | others(x^ones*'u')
	}
	*m = marks{^quotes, ^slashes, ^us}
}

// escapes returns which bytes of a block are escaped by a backslash before them,
// given where its backslashes are and whether the block before escapes the first
// byte (1 or 0); over says the same for the block that follows.
//
// A run of backslashes escapes every other byte, beginning with the one behind
// its first. Subtracting the run from itself shifted by one, over a pattern of
// odd bits, carries through the run and leaves exactly these (simdjson's way).
func escapes(slashes, first uint64) (escaped, over uint64) {
	const odd = 0xaaaaaaaaaaaaaaaa
	begin := slashes &^ first
	codes := (begin<<1 | odd) - begin ^ odd
	return codes ^ (slashes | first), codes & slashes >> (block - 1)
}
