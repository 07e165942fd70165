package ledger

import (
	"encoding/hex"
	"time"
)

// ReplicaID names a replica, for example "r0".
type ReplicaID string

// Key names a conversation. The zero Key means that the client sent nothing
// that names one.
type Key [16]byte

// IsZero reports whether k names no conversation.
func (k Key) IsZero() bool { return k == Key{} }

// String is the display form: the first eight hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:4]) }

// Spec is what placement needs to be told about one replica.
type Spec struct {
	ID ReplicaID
	// Generation counts process starts. A change means an empty prefix
	// cache: conversations lose this home.
	Generation uint64
	// Accepting: may be given turns. Suspect: something looks wrong; it
	// keeps its conversations and gets no new ones.
	Accepting, Suspect bool
	// MaxNumSeqs is the engine's limit of sequences in one batch, 0 when
	// not known. KVCapacityTokens is the size of its KV cache in tokens, 0
	// when not known. HostKVTokens is the size of its second tier in host
	// memory, 0 when it has none.
	MaxNumSeqs, KVCapacityTokens, HostKVTokens int
}

// EngineView is what an engine says about itself.
type EngineView struct {
	At               time.Time
	Running, Waiting int
	// KVUsed is the share of KV blocks that running requests hold, 0 to 1.
	// Blocks that are only cached count as free.
	KVUsed           float64
	KVCapacityTokens int
	// Preemptions is the engine's own counter since its start.
	Preemptions uint64
}
