package placement

import "github.com/lm-warden/warden/router/placement/ledger"

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

// Replica is what placement needs to know about one replica: its process, by
// generation, whether it takes turns, and the sizes of its engine.
type Replica = ledger.Spec

// Stats brings numbers scraped from an engine. They are ignored once older
// than Config.StatsMaxAge.
type Stats struct {
	Replica ReplicaID
	Engine  EngineView
}

// EngineView is what an engine says about itself.
type EngineView = ledger.EngineView

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
