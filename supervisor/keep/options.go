package keep

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
)

// Options are what a Supervisor needs from outside. Only Launcher has no default.
type Options struct {
	Launcher supervisor.Launcher
	Bus      *events.Bus  // nil = events are not published
	Log      *slog.Logger // nil = nothing is logged
	StateDir string       // keeps generations and start times over restarts; empty = nothing is kept

	// Work reports warden's own requests in flight on a replica. nil = never any, so a hang is found only by health.
	Work func(supervisor.ReplicaID) supervisor.Work
	// GPUFree returns the free memory of the devices, in bytes; known is false where it cannot be read, and then no
	// start waits for it. nil = never known.
	GPUFree func(ctx context.Context, uuids []string) (free uint64, known bool)
	// Hold says why no engine can start on these devices now, in words that end with the fix; "" = one can. It is asked
	// before each start, again and again while it holds, and may take its time; without devices for an engine that uses
	// none. nil = never.
	Hold func(ctx context.Context, uuids []string) (why string)
	// Pin returns the spec with its devices as they are numbered now: a number moves when another device is lost. It is
	// asked at each start; an error fails that start. nil = the numbers never move.
	Pin func(context.Context, supervisor.Spec) (supervisor.Spec, error)
	// BootID names the present boot of the machine: devices that were set aside before another one are used again.
	// Empty = unknown, and they stay set aside.
	BootID string
	// Changed is called with a copy after every change of a replica, also of its phase and its stats. It runs on the
	// replica's own goroutine and must not block or call back into the Supervisor.
	Changed func(supervisor.Replica)
	// Scraped is called with every /metrics answer that could be read, in the engine's own format; it may keep the text.
	// It runs on a goroutine of the replica's and must not block. nil = the text is dropped once it is parsed.
	Scraped func(id supervisor.ReplicaID, generation uint64, at time.Time, text []byte)

	// ParallelStart starts all replicas of a model at once instead of one first, to fill the compile and download
	// caches, and then the rest.
	ParallelStart bool

	Timing Timing
	Jitter func() float64 // uniform in [0,1); nil = math/rand
}

func (o Options) withDefaults() Options {
	if o.Bus == nil {
		o.Bus = events.NewBus(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Work == nil {
		o.Work = func(supervisor.ReplicaID) supervisor.Work { return supervisor.Work{} }
	}
	if o.GPUFree == nil {
		o.GPUFree = func(context.Context, []string) (uint64, bool) { return 0, false }
	}
	if o.Hold == nil {
		o.Hold = func(context.Context, []string) string { return "" }
	}
	if o.Pin == nil {
		o.Pin = func(_ context.Context, s supervisor.Spec) (supervisor.Spec, error) { return s, nil }
	}
	if o.Changed == nil {
		o.Changed = func(supervisor.Replica) {}
	}
	if o.Scraped == nil {
		o.Scraped = func(supervisor.ReplicaID, uint64, time.Time, []byte) {}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	o.Timing = o.Timing.withDefaults()
	return o
}
