package keep

import (
	"cmp"
	"time"

	"github.com/lm-warden/warden/supervisor/machine"
)

// Timing holds every duration that replicas are kept by. A zero field takes the value of DefaultTiming.
type Timing struct {
	machine.Timing

	ProbeStarting time.Duration // between /health probes while an engine starts
	ProbeReady    time.Duration // between /health probes, and between /metrics reads, afterwards
	ProbeSlow     time.Duration // an answer later than this counts as slow
	ProbeTimeout  time.Duration // a probe is given up after this
	WarmTimeout   time.Duration // for the first real request

	StallAfter time.Duration // work held and no progress for this long asks for a canary
	Canary     time.Duration // a canary unanswered for this long means a hang

	GateInterval time.Duration // between reads of the GPU's free memory before a start
	GateLimit    time.Duration // a start waits at most this long for it
}

// DefaultTiming returns the production values. A JIT stall of a healthy engine lasts 30-70 s, so nothing under
// StallAfter+Canary may restart it.
func DefaultTiming() Timing {
	return Timing{
		Timing:        machine.DefaultTiming(),
		ProbeStarting: 200 * time.Millisecond,
		ProbeReady:    time.Second,
		ProbeSlow:     2 * time.Second,
		ProbeTimeout:  10 * time.Second,
		WarmTimeout:   60 * time.Second,
		StallAfter:    180 * time.Second,
		Canary:        60 * time.Second,
		GateInterval:  time.Second,
		GateLimit:     60 * time.Second,
	}
}

// withDefaults leaves machine.Timing to package machine.
func (t Timing) withDefaults() Timing {
	d := DefaultTiming()
	t.ProbeStarting = cmp.Or(t.ProbeStarting, d.ProbeStarting)
	t.ProbeReady = cmp.Or(t.ProbeReady, d.ProbeReady)
	t.ProbeSlow = cmp.Or(t.ProbeSlow, d.ProbeSlow)
	t.ProbeTimeout = cmp.Or(t.ProbeTimeout, d.ProbeTimeout)
	t.WarmTimeout = cmp.Or(t.WarmTimeout, d.WarmTimeout)
	t.StallAfter = cmp.Or(t.StallAfter, d.StallAfter)
	t.Canary = cmp.Or(t.Canary, d.Canary)
	t.GateInterval = cmp.Or(t.GateInterval, d.GateInterval)
	t.GateLimit = cmp.Or(t.GateLimit, d.GateLimit)
	return t
}
