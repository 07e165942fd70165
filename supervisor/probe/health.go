package probe

import (
	"fmt"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/machine"
)

// What the trackers count.
const (
	slowLimit    = 3 // slow /health answers in a row make a replica suspect; see HealthTracker for what counts double
	riseLimit    = 2 // good answers in a row end the suspicion
	passiveLimit = 2 // transport failures within passiveWindow make a replica suspect

	passiveWindow = 10 * time.Second
)

// HealthTracker turns the answers of /health of a running engine into events.
type HealthTracker struct {
	good, bad int // in a row
}

// Observe returns nil when the answer changes nothing. silent says that the engine holds work of which no byte came
// while it was asked: then a late answer counts double, because every turn that still goes there waits with the rest.
// One alone is never enough; a pause of a second or two is everyday life.
func (h *HealthTracker) Observe(r Result, silent bool) machine.Event {
	switch {
	case r.Dead():
		return machine.Dead{Why: "the engine reports that its core is dead"}
	case r.refused():
		return machine.Dead{Why: r.unreachable()}
	case Own(r.err): // nobody was asked
		return nil
	case r.Good():
		h.bad = 0
		h.good++
		if h.good >= riseLimit {
			return machine.Healthy{}
		}
		return nil
	}
	h.good = 0
	h.bad++
	if silent && r.late() {
		h.bad++
	}
	if h.bad >= slowLimit {
		return machine.Slow{Why: r.String()}
	}
	return nil
}

// FailureTracker turns failed requests, as the router met them, into suspicion.
type FailureTracker struct{ recent []time.Time }

// Observe takes one failure and returns nil when it changes nothing.
func (f *FailureTracker) Observe(err error, now time.Time) machine.Event {
	f.recent = append(f.recent, now)
	for len(f.recent) > 0 && now.Sub(f.recent[0]) > passiveWindow {
		f.recent = f.recent[1:]
	}
	if len(f.recent) < passiveLimit {
		return nil
	}
	return machine.Slow{Why: fmt.Sprintf("%d requests failed in %s: %v", len(f.recent), passiveWindow, err)}
}

// StallTracker finds an engine that holds work and gets nowhere. Progress is a byte on any stream, a step of the
// scheduler, or a change in the cache's use: the last moves during a long prefill, when nothing else does. The
// engine's gauges of running and waiting requests are no evidence, they stand still when it hangs, and neither is a
// good /health.
type StallTracker struct {
	since    time.Time // of the last sign of progress, or of having nothing to do
	lastByte time.Time
	stats    supervisor.EngineStats
}

// Observe takes what is known now and returns how long the engine has made no progress although it should; 0 = it
// does, or has nothing to do. must says that the engine owes an answer for another reason than held work.
func (s *StallTracker) Observe(w supervisor.Work, stats supervisor.EngineStats, must bool, now time.Time) time.Duration {
	moved := w.LastByte.After(s.lastByte) || stats.Iterations != s.stats.Iterations || stats.KVUsed != s.stats.KVUsed ||
		stats.GenerationTokens != s.stats.GenerationTokens || stats.PromptTokens != s.stats.PromptTokens
	s.lastByte, s.stats = w.LastByte, stats
	if moved || s.since.IsZero() || (w.Held == 0 && !must) {
		s.since = now
	}
	return now.Sub(s.since)
}

// Answered notes that the engine answered a canary.
func (s *StallTracker) Answered(now time.Time) { s.since = now }
