package supervisor

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
)

// Options are what a Supervisor needs from outside. Only Launcher has no default.
type Options struct {
	Launcher Launcher
	Bus      *events.Bus  // nil = events are not published
	Log      *slog.Logger // nil = nothing is logged
	StateDir string       // keeps generations and start times over restarts; empty = nothing is kept

	// Work reports warden's own requests in flight on a replica. nil = never any, so a hang is found only by health.
	Work func(ReplicaID) Work
	// GPUFree returns the free memory of the devices, in bytes; known is false where it cannot be read, and then no
	// start waits for it. nil = never known.
	GPUFree func(ctx context.Context, uuids []string) (free uint64, known bool)
	// Hold says why no engine can start on these devices now, in words that end with the fix; "" = one can. It is asked
	// before each start, again and again while it holds, and may take its time. nil = never.
	Hold func(ctx context.Context, uuids []string) (why string)
	// Pin returns the spec with its devices as they are numbered now: a number moves when another device is lost. It is
	// asked at each start; an error fails that start. nil = the numbers never move.
	Pin func(context.Context, Spec) (Spec, error)
	// BootID names the present boot of the machine: devices that were set aside before another one are used again.
	// Empty = unknown, and they stay set aside.
	BootID string
	// Changed is called with a copy after every change of a replica, also of its phase and its stats. It runs on the
	// replica's own goroutine and must not block or call back into the Supervisor.
	Changed func(Replica)
	// Scraped is called with every /metrics answer that could be read, in the engine's own format; it may keep the text.
	// It runs on a goroutine of the replica's and must not block. nil = the text is dropped once it is parsed.
	Scraped func(id ReplicaID, generation uint64, at time.Time, text []byte)

	// ParallelStart starts all replicas of a model at once instead of one first, to fill the compile and download
	// caches, and then the rest.
	ParallelStart bool

	Timing Timing
	Jitter func() float64 // uniform in [0,1); nil = math/rand
}

// Timing holds every duration the supervisor decides by. A zero field takes the value of DefaultTiming.
type Timing struct {
	ProbeStarting time.Duration // between /health probes while an engine starts
	ProbeReady    time.Duration // between /health probes, and between /metrics reads, afterwards
	ProbeSlow     time.Duration // an answer later than this counts as slow
	ProbeTimeout  time.Duration // a probe is given up after this
	WarmTimeout   time.Duration // for the first real request

	StartSilence time.Duration // a start without progress in its log for this long has failed
	StallAfter   time.Duration // work held and no progress for this long asks for a canary
	Canary       time.Duration // a canary unanswered for this long means a hang

	Grace     time.Duration // from SIGTERM to the main process until the group gets it
	GraceDead time.Duration // the same for an engine that did not become ready
	StopLimit time.Duration // an order to end a tree without any answer for this long is repeated as a kill

	BackoffBase  time.Duration // first delay after a failure; doubles each time, with full jitter
	BackoffMax   time.Duration
	StableAfter  time.Duration // ready for this long forgives earlier failures
	FailWindow   time.Duration // FailLimit failures within this park the replica
	GateInterval time.Duration // between reads of the GPU's free memory before a start
	GateLimit    time.Duration // a start waits at most this long for it
}

// Counts that the rules use; they are not tuned together with the durations.
const (
	failLimit     = 5 // failures within FailWindow park a replica
	samePermanent = 2 // identical permanent causes in a row park it
	slowLimit     = 3 // slow /health answers in a row make a replica suspect; see healthTracker for what counts double
	riseLimit     = 2 // good answers in a row end the suspicion
	passiveLimit  = 2 // transport failures within passiveWindow make a replica suspect
	warmLimit     = 5 // refused or failed first requests in a row fail the start
	gateReads     = 3 // equal readings of free memory in a row open the gate

	passiveWindow = 10 * time.Second
	asideDrain    = 30 * time.Second // what a replica holds may finish for this long when its GPU is set aside
)

// DefaultTiming returns the production values. Their reasons:
// a JIT stall of a healthy engine lasts 30-70 s, so nothing under StallAfter+Canary may restart it; loads take
// 30-120 s, so back-off stays near them; vLLM answers SIGTERM within a second unless it drains.
func DefaultTiming() Timing {
	return Timing{
		ProbeStarting: 200 * time.Millisecond,
		ProbeReady:    time.Second,
		ProbeSlow:     2 * time.Second,
		ProbeTimeout:  10 * time.Second,
		WarmTimeout:   60 * time.Second,
		StartSilence:  30 * time.Minute,
		StallAfter:    180 * time.Second,
		Canary:        60 * time.Second,
		Grace:         10 * time.Second,
		GraceDead:     2 * time.Second,
		StopLimit:     20 * time.Second,
		BackoffBase:   time.Second,
		BackoffMax:    60 * time.Second,
		StableAfter:   10 * time.Minute,
		FailWindow:    15 * time.Minute,
		GateInterval:  time.Second,
		GateLimit:     60 * time.Second,
	}
}

func (o Options) withDefaults() Options {
	if o.Bus == nil {
		o.Bus = events.NewBus(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Work == nil {
		o.Work = func(ReplicaID) Work { return Work{} }
	}
	if o.GPUFree == nil {
		o.GPUFree = func(context.Context, []string) (uint64, bool) { return 0, false }
	}
	if o.Hold == nil {
		o.Hold = func(context.Context, []string) string { return "" }
	}
	if o.Pin == nil {
		o.Pin = func(_ context.Context, s Spec) (Spec, error) { return s, nil }
	}
	if o.Changed == nil {
		o.Changed = func(Replica) {}
	}
	if o.Scraped == nil {
		o.Scraped = func(ReplicaID, uint64, time.Time, []byte) {}
	}
	if o.Jitter == nil {
		o.Jitter = rand.Float64
	}
	o.Timing = o.Timing.withDefaults()
	return o
}

func (t Timing) withDefaults() Timing {
	d := DefaultTiming()
	set := func(value *time.Duration, fallback time.Duration) {
		if *value <= 0 {
			*value = fallback
		}
	}
	set(&t.ProbeStarting, d.ProbeStarting)
	set(&t.ProbeReady, d.ProbeReady)
	set(&t.ProbeSlow, d.ProbeSlow)
	set(&t.ProbeTimeout, d.ProbeTimeout)
	set(&t.WarmTimeout, d.WarmTimeout)
	set(&t.StartSilence, d.StartSilence)
	set(&t.StallAfter, d.StallAfter)
	set(&t.Canary, d.Canary)
	set(&t.Grace, d.Grace)
	set(&t.GraceDead, d.GraceDead)
	set(&t.StopLimit, d.StopLimit)
	set(&t.BackoffBase, d.BackoffBase)
	set(&t.BackoffMax, d.BackoffMax)
	set(&t.StableAfter, d.StableAfter)
	set(&t.FailWindow, d.FailWindow)
	set(&t.GateInterval, d.GateInterval)
	set(&t.GateLimit, d.GateLimit)
	return t
}
