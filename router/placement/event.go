package placement

import "time"

// Event is something that happened. The set is closed: Arrive, Retry, Cancel,
// FirstByte, Finish, Replicas, Stats, Configure, Restore, Tick.
type Event interface{ isEvent() }

// Arrive asks for a place. It is answered, now or in a later Step, by exactly
// one Dispatch or Reject, unless Cancel comes first.
type Arrive struct{ Turn Turn }

// Retry says that a dispatched turn failed before its first byte reached the
// client. It ends the reservation on Failed and asks for another place.
type Retry struct {
	TurnID uint64
	Failed ReplicaID
}

// Cancel says that the client left. It ends a waiting or dispatched turn; a
// Finish that follows is ignored.
type Cancel struct{ TurnID uint64 }

// FirstByte says that the engine's first content byte has arrived.
type FirstByte struct{ TurnID uint64 }

// Finish ends a dispatched turn: its last byte was sent.
type Finish struct {
	TurnID  uint64
	Outcome Outcome
}

// Replicas replaces the set of replicas. The process of one that is missing has
// ended; should it return, then with another generation.
type Replicas struct{ Replicas []Replica }

// Replica is what placement needs to know about one replica.
type Replica struct {
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

// Stats brings numbers scraped from an engine. They are ignored once older
// than Config.StatsMaxAge.
type Stats struct {
	Replica ReplicaID
	Engine  EngineView
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

// Configure changes the configuration; conversations stay known.
type Configure struct{ Config Config }

// Tick says that a time asked for by WakeAt has come. Any time is harmless.
type Tick struct{}

func (Arrive) isEvent()    {}
func (Retry) isEvent()     {}
func (Cancel) isEvent()    {}
func (FirstByte) isEvent() {}
func (Finish) isEvent()    {}
func (Replicas) isEvent()  {}
func (Stats) isEvent()     {}
func (Configure) isEvent() {}
func (Tick) isEvent()      {}
