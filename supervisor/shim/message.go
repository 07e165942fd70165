package shim

import (
	"time"
)

// The socket speaks JSON, one object a line. A connection gets the state first; after opFollow also lines; notices
// come to every connection.

// request is what a client asks.
type request struct {
	Op    string        `json:"op"`
	Tail  int           `json:"tail,omitempty"`     // opFollow: this many kept lines first
	Grace time.Duration `json:"grace_ns,omitempty"` // opStop: from SIGTERM until the whole group gets it
}

const (
	opFollow = "follow"
	opStop   = "stop"
	opKill   = "kill"
)

// message is what the shim says.
type message struct {
	Kind  string `json:"kind"`
	State *State `json:"state,omitempty"` // msgState
	Line  *Line  `json:"line,omitempty"`  // msgLine
	Exit  *Exit  `json:"exit,omitempty"`  // msgExited, msgGone
	PIDs  []int  `json:"pids,omitempty"`  // msgStuck
}

const (
	msgState  = "state"  // the first message of a connection
	msgLine   = "line"   // one line of the engine's output
	msgExited = "exited" // the main process ended; the rest of the tree is being ended
	msgStuck  = "stuck"  // processes that SIGKILL did not end
	msgGone   = "gone"   // no process is left; the shim ends now
)

// Line is one line of the engine's output.
type Line struct {
	At         time.Time `json:"at"`
	Generation uint64    `json:"generation"`
	Text       string    `json:"text"`
	Redraw     bool      `json:"redraw,omitempty"` // an intermediate state of a progress bar; not in the log file
}
