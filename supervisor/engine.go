package supervisor

import (
	"io"
	"time"
)

// Engine knows one kind of inference server: how to start it and how to read what it says. The supervisor knows
// nothing of flags, metric names or log formats; package supervisor/vllm does.
// Implementations must be usable from several goroutines.
type Engine interface {
	// Command returns the process to start. Its Env is the whole environment: nothing is inherited.
	Command(Spec) (Command, error)
	// Phase recognises a start-up phase in one log line.
	Phase(line string) (Phase, bool)
	// ParseStats reads one /metrics answer. Missing metrics are left zero; only unreadable input is an error.
	ParseStats(r io.Reader, at time.Time) (EngineStats, error)
	// Diagnose explains an ended engine from its last log lines (oldest first, at most 200).
	Diagnose(lines []string, exit Exit) Diagnosis
}

// Command is a process to be started.
type Command struct {
	Argv []string // Argv[0] is looked up in the PATH of Env unless it holds a slash
	Env  []string // KEY=VALUE
	Dir  string   // working directory; empty = a private one
}

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

// PhaseTime is how long one start-up phase took.
type PhaseTime struct {
	Name string // PhaseSpawn ... PhaseServe
	Took time.Duration
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

// Diagnosis is why an engine ended or did not start, in words.
type Diagnosis struct {
	Cause     string // one sentence, no final stop; empty = unknown
	Fix       string // what a person can do; may be empty
	Permanent bool   // another start without a change will fail the same way
	Line      string // the log line it was read from
}
