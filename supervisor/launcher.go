package supervisor

import (
	"context"
	"errors"
	"iter"
	"strconv"
	"syscall"
	"time"
)

// Launcher starts engine processes and keeps their logs. The real one runs a shim per engine (package launch);
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

// Exit is how an engine's main process ended.
type Exit struct {
	Code   int            // exit status; meaningless when Signal is set
	Signal syscall.Signal // the signal that ended it, 0 = none
	At     time.Time
}

// String says how a process ended: "code 1", "ended by signal: killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "ended by signal: " + e.Signal.String()
	}
	return "code " + strconv.Itoa(e.Code)
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
