package machine

import (
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// Event is one of the types below.
type Event any

// What a person, or warden itself, wants of the replica: orders.go.
type (
	Start   struct{}                      // its turn to start has come
	Stop    struct{ Drain time.Duration } // 0 = at once
	Restart struct{ Drain time.Duration } // 0 = at once
	Drain   struct{}                      // finish what is held, take nothing new, stay up
	Undrain struct{}                      // end of that
	Kill    struct{}                      // SIGKILL now
	Retry   struct{}                      // forget the failures and start
	Sibling struct{ Cause string }        // another replica of the model was parked for this permanent cause
	Aside   struct {                      // a GPU of the replica is set aside
		Diagnosis supervisor.Diagnosis
		Gone      bool // nothing on it is worth waiting for
	}
)

// What happened on the way to a process, and to the process: process.go.
type (
	Held    struct{ Why string }                     // no engine can start now; "" = the hold is over
	Gate    struct{ Note string }                    // the GPU's memory is there, or was waited for long enough
	Adopted struct{ Info supervisor.ProcessInfo }    // a running engine was found
	Spawned struct{ Info supervisor.ProcessInfo }    // the engine's process was started
	Unborn  struct{ Diagnosis supervisor.Diagnosis } // the start failed before there was a process
	Exited  struct{}                                 // the main process ended
	Gone    struct {                                 // the whole tree ended
		Diagnosis supervisor.Diagnosis // what the log tells; Cause may be empty
		How       string               // status or signal
	}
	Unkilled struct{ PIDs []int }    // processes outlived SIGKILL
	Fired    struct{ Number uint64 } // a timer
)

// What probes, counters and the log say: health.go.
type (
	Answers  struct{}             // /health is good, for the first time
	Warm     struct{}             // the served name and one real request are good
	Cold     struct{ Why string } // they were not, too often
	Slow     struct{ Why string } // /health is late, or requests failed on the way
	Healthy  struct{}             // /health is good again, several times
	Dead     struct{ Why string } // /health says that the engine is dead, or nobody listens any more
	Hung     struct{ Why string } // holds work, makes no progress, and does not answer a canary
	Progress struct{}             // the log of a start said something new
	Idle     struct{}             // holds no request
)

// Effect is what the machine wants done: one of the types below.
type Effect interface{ isEffect() }

// The effects.
type (
	GateEffect  struct{}                    // wait for the GPU's memory, then report Gate
	SpawnEffect struct{ Generation uint64 } // start the engine, then report Spawned or Unborn
	StopEffect  struct{ Grace time.Duration }
	KillEffect  struct{}
	ArmEffect   struct { // report Fired{Number} after a while, instead of any earlier timer
		After  time.Duration
		Number uint64
	}
	DisarmEffect struct{}
)

func (GateEffect) isEffect()   {}
func (SpawnEffect) isEffect()  {}
func (StopEffect) isEffect()   {}
func (KillEffect) isEffect()   {}
func (ArmEffect) isEffect()    {}
func (DisarmEffect) isEffect() {}
