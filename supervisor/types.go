package supervisor

import (
	"syscall"
	"time"
)

// ReplicaID names one replica: r0, r1, ... It is stable over restarts of its engine and of warden.
type ReplicaID string

// Spec says what one replica is: which model, on which devices, reached where. It never changes while it runs.
type Spec struct {
	ID          ReplicaID
	Model       string   // alias, the name that people use
	Repo        string   // what the engine loads: a Hugging Face repository or a directory
	ServedNames []string // names the engine answers to; the first is checked after start. Empty = Model
	TP          int      // devices per replica; 0 = 1
	Device      string   // DeviceCUDA, DeviceCPU or DeviceSimulated
	GPUUUIDs    []string // identity of the devices: locks and quarantine go by it
	GPUIndices  []int    // positions in PCI bus order, for the screen
	Env         []string // pinning and the user's additions, KEY=VALUE
	CPUs        []int    // cores the engine may use; nil = all
	Address     string   // where the engine listens: "unix:/path" or "http://host:port"
	Args        []string // the user's engine arguments, passed last and unchanged
	MaxNumSeqs  int      // 0 = the engine's default
	Engine      Engine
}

// Devices an engine can run on.
const (
	DeviceCUDA      = "cuda"
	DeviceCPU       = "cpu"
	DeviceSimulated = "simulated" // replicas of one model start in parallel: there is no cache to fill first
)

// State is where a replica is in its life; doc.go holds the table of transitions.
type State string

// The twelve states.
const (
	Pending    State = "pending"     // waits for the first replica of its model to fill the caches
	WaitingGPU State = "waiting_gpu" // waits for the GPU's memory to be free and stable
	Starting   State = "starting"    // engine process runs, does not answer yet
	Warming    State = "warming"     // answers /health; the served name and one real request are being checked
	Ready      State = "ready"       // takes requests
	Suspect    State = "suspect"     // answers late or not; keeps what it has, gets nothing new
	Draining   State = "draining"    // finishes what it holds, gets nothing new
	Stopping   State = "stopping"    // its processes are being ended
	Stopped    State = "stopped"     // no process, by order
	Backoff    State = "backoff"     // failed; the next start is scheduled
	Parked     State = "parked"      // failed in a way that another start will not cure; waits for a person
	Stuck      State = "stuck"       // has processes that cannot be killed; its GPU is set aside
)

// Accepting reports whether new requests may be placed on a replica in this state.
func (s State) Accepting() bool { return s == Ready }

// Coming reports whether a replica in this state is on its way to ready without anybody's help.
func (s State) Coming() bool {
	switch s {
	case Pending, WaitingGPU, Starting, Warming, Backoff:
		return true
	}
	return false
}

// serving reports whether a replica in this state has an engine that may be of use to somebody.
func (s State) serving() bool { return s == Ready || s == Suspect || s == Draining }

// Phase is how far a starting engine got, read from its log. For display only: readiness is never taken from a log.
type Phase struct {
	Name     string // PhaseSpawn ... PhaseServe
	Detail   string // one short remark, for example "shards" or a rate
	Done     int    // of Total; both 0 = no measure
	Total    int
	KVTokens int // KV cache capacity in tokens, once the engine printed it
}

// The start-up phases in the order they come. A phase may be skipped.
const (
	PhaseSpawn   = "spawn"
	PhaseWeights = "weights"
	PhaseCompile = "compile"
	PhaseProfile = "profile"
	PhaseGraphs  = "graphs"
	PhaseServe   = "serve"
)

// Diagnosis is why an engine ended or did not start, in words.
type Diagnosis struct {
	Cause     string // one sentence, no final stop; empty = unknown
	Fix       string // what a person can do; may be empty
	Permanent bool   // another start without a change will fail the same way
	Line      string // the log line it was read from
}

// Exit is how an engine's main process ended.
type Exit struct {
	Code   int            // exit status; meaningless when Signal is set
	Signal syscall.Signal // the signal that ended it, 0 = none
	At     time.Time
}

// EngineStats is one reading of the engine's own metrics. Counters are since the engine's start.
type EngineStats struct {
	At               time.Time // when it was read; zero = never
	Running          int       // requests in the engine's batch
	Waiting          int       // requests in the engine's queue
	KVUsed           float64   // ratio 0-1, blocks of running requests only
	KVCapacityTokens int       // 0 = unknown
	BlockSize        int       // tokens per KV block; 0 = unknown
	PrefixQueries    uint64    // tokens looked up in the prefix cache
	PrefixHits       uint64    // tokens found there
	ExternalQueries  uint64    // the same for the second tier (host memory)
	ExternalHits     uint64
	PromptTokens     uint64 // including cached ones
	GenerationTokens uint64
	Preemptions      uint64
	Iterations       uint64 // scheduler steps that emitted a token
}

// Work is what warden itself has in flight on one replica. The engine's gauges are no substitute: they stand still
// at 0 when the engine hangs.
type Work struct {
	Held     int       // requests placed there whose last byte has not come
	LastByte time.Time // last byte of any answer from it; zero = none yet
}

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
}

// LogLine is one line of an engine's output.
type LogLine struct {
	At         time.Time
	Generation uint64
	Text       string // without the line end; at most 8 KiB
	Redraw     bool   // an intermediate state of a progress bar; never in the log file
}

// LogQuery selects log lines.
type LogQuery struct {
	Tail     int       // last n lines; 0 = all that are kept
	Since    time.Time // zero = no limit
	Previous bool      // only the run before the present one
	Follow   bool      // go on with new lines until the context ends
}
