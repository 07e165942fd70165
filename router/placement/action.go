package placement

import "time"

// Action is something for the caller to do. The set is closed: Dispatch,
// Queue, Reject, WakeAt.
type Action interface{ isAction() }

// Dispatch sends a turn to a replica. The turn is already counted there.
type Dispatch struct {
	TurnID     uint64
	Replica    ReplicaID
	Generation uint64
	Reason     Reason
	// Rehomed: the conversation had another home before.
	Rehomed bool
	// Home is where the conversation lives after this turn; it differs from
	// Replica when the turn was spilled, and is empty without conversation.
	Home ReplicaID
	// Waited is the time spent in the queue.
	Waited time.Duration
	// ExpectedCached is how many prompt tokens we believe that replica has
	// cached, ExpectedUncached how many it will have to compute.
	ExpectedCached, ExpectedUncached int
}

// Queue tells that a turn waits. Position counts from 1 and is that of the
// moment; View has the current one.
type Queue struct {
	TurnID   uint64
	Position int
	Why      Why
}

// Reject refuses a turn; the Placer has forgotten it. RetryAfter is in whole
// seconds, 1 to 60.
type Reject struct {
	TurnID     uint64
	Why        Why
	RetryAfter time.Duration
}

// WakeAt asks for a Tick at that time. It replaces earlier wishes.
type WakeAt struct{ At time.Time }

func (Dispatch) isAction() {}
func (Queue) isAction()    {}
func (Reject) isAction()   {}
func (WakeAt) isAction()   {}
