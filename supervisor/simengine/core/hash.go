package core

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// hasher computes block hashes: a block's hash covers its own tokens and its
// parent's hash, hence the whole prefix. The salt enters at the first block.
type hasher struct {
	digest xxhash.Digest
	buf    []byte
}

func newHasher(blockSize int) *hasher {
	return &hasher{buf: make([]byte, 0, 8*(blockSize+1))}
}

// root is the parent of a first block.
func (h *hasher) root(salt string) uint64 {
	if salt == "" {
		return 0
	}
	return xxhash.Sum64String(salt)
}

// block hashes one full block.
func (h *hasher) block(parent uint64, r *request, from, to int) uint64 {
	h.buf = binary.LittleEndian.AppendUint64(h.buf[:0], parent)
	for i := from; i < to; i++ {
		h.buf = binary.LittleEndian.AppendUint64(h.buf, uint64(r.token(i)))
	}
	h.digest.Reset()
	_, _ = h.digest.Write(h.buf)
	return h.digest.Sum64()
}

// extend hashes the blocks of r that have become full since the last call.
func (h *hasher) extend(r *request, blockSize int) {
	for full := r.length() / blockSize; len(r.hashes) < full; {
		parent := h.root(r.Salt)
		if n := len(r.hashes); n > 0 {
			parent = r.hashes[n-1]
		}
		from := len(r.hashes) * blockSize
		r.hashes = append(r.hashes, h.block(parent, r, from, from+blockSize))
	}
}
