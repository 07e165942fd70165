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
