package supervisor

import "time"

// Replica is a copy of what is known about one replica at one moment.
type Replica struct {
	Spec
	State       State
	Note        string // why it is in that state, in a few words; may be empty
	Phase       Phase
	Since       time.Time // when State was entered
	StartedAt   time.Time // start of the present (or last) engine process; zero = none
	ReadyAt     time.Time // when the present (or last) engine process became ready; zero = not yet
	Generation  uint64    // engine starts of this replica, also over restarts of warden; a new one has an empty cache
	Restarts    int       // engine starts after the first one since warden started
	RestartsBy  RestartCounts
	Failures    int       // consecutive failures since it was last ready for long
	PID         int       // engine's main process; 0 = none
	NextRetry   time.Time // in backoff: when
	Deadline    time.Time // in draining for a restart or a stop: when it stops waiting for what is held
	LastExit    *Exit     // of the previous engine process; nil = none ended yet
	Diagnosis   Diagnosis // of the last failure; cleared by lasting readiness
	Stats       EngineStats
	ServedModel string        // the name the engine reports
	Version     string        // of the engine
	MaxModelLen int           // tokens, as the engine reports it; 0 = unknown
	LastStart   time.Duration // how long the previous successful start of this model took; 0 = unknown
	StartPhases []PhaseTime   // of this replica's last successful start, in order; not to be changed
	Adopted     bool          // the present engine was started by an earlier warden
	Returns     bool          // it is stopping, or draining for that, and will start anew
}

// Coming reports whether the replica is on its way to ready without anybody's help.
func (r Replica) Coming() bool { return r.State.Coming() || r.Returns }

// Work is what warden itself has in flight on one replica. The engine's gauges are no substitute: they stand still
// at 0 when the engine hangs.
type Work struct {
	Held     int       // requests placed there whose last byte has not come
	LastByte time.Time // last byte of any answer from it; zero = none yet
}
