package control

import (
	"context"
	"iter"
)

// Daemon is what the server speaks for; cmd/internal/daemon implements it. Every method may be called from any
// goroutine. Errors of type *Error travel as they are.
type Daemon interface {
	Reporter
	Operator
}

// Reporter answers questions. Status is called once a second for each watcher: it returns copies and does not wait.
type Reporter interface {
	Status() Status
	Version() Version
	Config() (Config, error)
	// Logs yields lines until the query is satisfied, or with Follow until ctx ends. A slow reader stalls the
	// iteration, so the implementation drops and counts rather than holding up the engine.
	Logs(ctx context.Context, q LogQuery) iter.Seq2[LogLine, error]
}

// Operator carries out orders. Replica and Shutdown return once the order is taken, not once it is done.
type Operator interface {
	SetAffinity(ctx context.Context, model string, on bool) (AffinityChange, error)
	// SetPolicy chooses one of the Policy constants; SetAffinity(on) then means it, unless it is balance.
	SetPolicy(ctx context.Context, model, policy string) (AffinityChange, error)
	SetSpillLimit(ctx context.Context, model string, limit int) (SpillChange, error)
	Replica(ctx context.Context, id string, action ReplicaAction) (Accepted, error)
	Shutdown(ctx context.Context, req ShutdownRequest) error
}

// Upgrader is a Daemon that another process can take over from without a gap. It is an interface of its own because
// not every Daemon has a program to start.
type Upgrader interface {
	// Upgrade starts the program anew. It returns once the new process is ready to take over, and the answer leaves
	// before it does: then this socket is closed and opened again by that process. An error leaves all as it was.
	Upgrade(ctx context.Context) (Upgraded, error)
}
