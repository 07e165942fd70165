// Package events carries what happened inside warden to everyone who watches: the dashboard, `warden status`,
// scripts on the event stream, the log.
//
// Read in this order: Event (one fact), Bus.Publish (never waits), Subscription (a bounded queue).
//
// Publishers are on hot paths: a placement must not wait for a screen. So a full subscription loses its oldest
// event and counts the loss; whoever reads Dropped() > 0 fetches a fresh snapshot instead of trusting the stream.
package events

import (
	"maps"
	"time"
)

// Kind names what sort of fact an Event is.
type Kind = string

// The kinds that warden's own packages publish. A reader must accept unknown ones.
const (
	KindState    Kind = "state"    // a replica changed state; Fields from, to
	KindPhase    Kind = "phase"    // a starting replica entered a start-up step; Fields phase
	KindReady    Kind = "ready"    // a replica answers requests; Fields seconds, spawn_seconds, ...
	KindExited   Kind = "exited"   // an engine's process tree ended; Fields code, signal, cause, fix
	KindRestart  Kind = "restart"  // a restart was ordered; Fields reason
	KindAdopted  Kind = "adopted"  // a running engine was found and taken over; Fields generation, pid
	KindPlaced   Kind = "placed"   // a turn was placed; Fields session, reason
	KindSpilled  Kind = "spilled"  // a turn was served away from its home
	KindAffinity Kind = "affinity" // a model's placement policy was changed
	KindAccess   Kind = "access"   // API keys or the certificate were read again
	KindGPU      Kind = "gpu"      // something about a GPU
)

// Event is one fact, told in the past tense. Events are values: Publish copies the Fields map.
type Event struct {
	Seq     uint64            `json:"seq"` // 1, 2, 3 ... in the order of publication on one Bus
	At      time.Time         `json:"at"`
	Kind    Kind              `json:"kind"`
	Replica string            `json:"replica,omitempty"`
	Model   string            `json:"model,omitempty"`
	Text    string            `json:"text"` // one line for a person; never prompt text
	Fields  map[string]string `json:"fields,omitempty"`
}

func (e Event) clone() Event {
	e.Fields = maps.Clone(e.Fields)
	return e
}
