package supervisor

import (
	"context"
	"fmt"
	"time"
)

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

// waitForMemory returns when the gate is open, with a note when it only gave up waiting. baseline is the free memory
// found before; it returns the one found now, 0 where it cannot be read.
func waitForMemory(
	ctx context.Context, t Timing, baseline uint64, read func(context.Context) (free uint64, known bool),
) (note string, free uint64) {
	gate := memoryGate{baseline: baseline}
	limit := time.NewTimer(t.GateLimit)
	defer limit.Stop()
	tick := time.NewTicker(t.GateInterval)
	defer tick.Stop()
	for {
		free, known := read(ctx)
		if !known || gate.observe(free) {
			return "", free
		}
		select {
		case <-ctx.Done():
			return "", free
		case <-limit.C:
			return fmt.Sprintf("GPU memory did not come back in %s: %s free, %s before",
				span(t.GateLimit), gib(free), gib(baseline)), free
		case <-tick.C:
		}
	}
}

func gib(bytes uint64) string { return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30)) }
