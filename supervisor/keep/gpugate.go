package keep

import (
	"context"
	"fmt"
	"time"

	"github.com/lm-warden/warden/supervisor/internal/span"
	"github.com/lm-warden/warden/supervisor/machine"
)

// gateReads is how many equal readings of free memory in a row open the gate.
const gateReads = 3

// Tolerances of the memory gate, in bytes. A desktop on the same GPU moves a few MiB all the time; an engine that is
// not gone yet holds GiB.
const (
	steadyWithin = 64 << 20  // readings this close count as equal
	backWithin   = 512 << 20 // free memory this close to the level before the last start counts as back
)

// memoryGate decides when a GPU's memory is free and stable enough for a start: an engine that starts while the
// memory of the last one still drains away fails, and one whose neighbour frees memory while it measures fails too.
type memoryGate struct {
	baseline uint64 // free bytes before an earlier start; 0 = unknown
	last     uint64
	equal    int
}

// observe takes one reading and reports whether the gate is open.
func (g *memoryGate) observe(free uint64) bool {
	if g.equal > 0 && distance(free, g.last) <= steadyWithin {
		g.equal++
	} else {
		g.equal = 1
	}
	g.last = free
	return g.equal >= gateReads && free+backWithin >= g.baseline
}

func distance(a, b uint64) uint64 {
	if a > b {
		return a - b
	}
	return b - a
}

// startGate holds what a start waits for.
type startGate struct {
	timing   Timing
	baseline uint64                                           // free memory found before an earlier start, bytes
	hold     func(context.Context) (why string)               // "" = an engine can start
	held     func(why string)                                 // told when a hold begins, changes or ends
	free     func(context.Context) (bytes uint64, known bool) // read now
}

// wait returns when the gate is open, with a note when it only gave up waiting for the memory, and the free memory
// found, 0 where it cannot be read. A hold has no limit: under a driver that refuses every start, trying does harm and
// no good.
func (g startGate) wait(ctx context.Context) (note string, free uint64) {
	memory := memoryGate{baseline: g.baseline}
	limit := time.NewTimer(g.timing.GateLimit)
	defer limit.Stop()
	tick := time.NewTicker(g.timing.GateInterval)
	defer tick.Stop()
	before := ""
	for {
		why := g.hold(ctx)
		if why != before && ctx.Err() == nil {
			g.held(why)
			before = why
		}
		if why != "" {
			memory = memoryGate{baseline: g.baseline}
			limit.Reset(g.timing.GateLimit)
		} else if bytes, known := g.free(ctx); !known || memory.observe(bytes) {
			return "", bytes
		} else {
			free = bytes
		}
		select {
		case <-ctx.Done():
			return "", free
		case <-limit.C:
			return fmt.Sprintf("GPU memory did not come back in %s: %s free, %s before",
				span.Text(g.timing.GateLimit), gib(free), gib(g.baseline)), free
		case <-tick.C:
		}
	}
}

// waitForGate waits beside the loop, unless a GPU is set aside.
func (r *replica) waitForGate() {
	ctx, cancel := context.WithCancel(r.life)
	r.stopGate = cancel
	uuids := r.spec.GPUUUIDs
	gate := startGate{
		timing: r.opts.Timing, baseline: r.baseline,
		hold: func(ctx context.Context) string { return r.opts.Hold(ctx, uuids) },
		held: func(why string) { r.post(ctx, machine.Held{Why: why}) },
		free: func(ctx context.Context) (uint64, bool) {
			if len(uuids) == 0 {
				return 0, false
			}
			return r.opts.GPUFree(ctx, uuids)
		},
	}
	r.tasks.Go(func() {
		defer cancel()
		if ev, is := r.setAside(); is {
			r.post(ctx, ev)
			return
		}
		note, free := gate.wait(ctx)
		r.post(ctx, gateDone{note: note, free: free})
	})
}

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
