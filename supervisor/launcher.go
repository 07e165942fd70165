package supervisor

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Launcher starts engine processes and keeps their logs. The real one runs a shim per engine (NewShimLauncher);
// tests use one that runs nothing; one day another may start engines on another machine.
type Launcher interface {
	// Launch starts an engine. It returns when the process exists, not when it is ready.
	Launch(context.Context, Launch) (Process, error)
	// Adopt finds the running engine that an earlier warden started for the same Launch. When it finds none, or one
	// that does not match, it ends whatever is left of it and returns ErrNothingToAdopt.
	Adopt(context.Context, Launch) (Process, error)
	// Logs yields what the replica's engines wrote, oldest first, also of engines that have ended.
	Logs(context.Context, ReplicaID, LogQuery) iter.Seq2[LogLine, error]
}

// ErrNothingToAdopt is returned by Launcher.Adopt when there is no running engine to take over.
var ErrNothingToAdopt = errors.New("no running engine to adopt")

// Launch is one engine process to start or to recognise.
type Launch struct {
	ID         ReplicaID
	Model      string
	Generation uint64 // of the process to start; ignored by Adopt
	Command    Command
	CPUs       []int
	Address    string // a stale unix socket there is removed before the start
	GPUUUIDs   []string
}

// Process is a handle on one engine's process tree. Its methods do not block on the engine.
type Process interface {
	Info() ProcessInfo
	// Events delivers lines and notices in the order they happened. It is closed after Gone, or after Close.
	Events() <-chan ProcessEvent
	// Stop begins the orderly end of the tree: SIGTERM to the main process, after grace to the group, then SIGKILL.
	Stop(grace time.Duration)
	// Kill ends the whole tree at once.
	Kill()
	// Close lets go of the tree and leaves it running.
	Close()
}

// ProcessInfo identifies a running engine.
type ProcessInfo struct {
	PID        int
	Generation uint64
	StartedAt  time.Time
}

// ProcessEvent is one line or one notice from an engine's process tree.
type ProcessEvent struct {
	Kind ProcessEventKind
	Line LogLine // EngineLine
	Exit Exit    // EngineExited, EngineGone
	PIDs []int   // EngineStuck: processes that outlived SIGKILL
	Note string  // EngineExited, EngineGone: a cause that the launcher knows of, for example a killed shim
}

// ProcessEventKind says what a ProcessEvent tells.
type ProcessEventKind int

// The kinds of ProcessEvent.
const (
	EngineLine   ProcessEventKind = iota + 1 // one line of output
	EngineExited                             // the main process ended; the rest of its tree is being ended
	EngineGone                               // no process of the tree is left; always the last event
	EngineStuck                              // some processes cannot be killed; EngineGone may still follow
)
