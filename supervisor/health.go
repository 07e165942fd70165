package supervisor

import (
	"fmt"
	"time"
)

// Two questions about a running engine are kept apart, because one answer for both gives either silent hangs or crash
// loops: may new requests go there (healthTracker, failureTracker: seconds), and must it be restarted (stallTracker:
// minutes). All three are pure.

// healthTracker turns the answers of /health of a running engine into events.
type healthTracker struct {
	good, bad int // in a row
}

// observe returns nil when the answer changes nothing. silent says that the engine holds work of which no byte came
// while it was asked: then a late answer counts double, because every turn that still goes there waits with the rest.
// One alone is never enough; a pause of a second or two is everyday life.
func (h *healthTracker) observe(r probeResult, silent bool) event {
	switch {
	case r.dead():
		return dead{why: "the engine reports that its core is dead"}
	case r.refused():
		return dead{why: "the engine no longer listens"}
	case r.good():
		h.bad = 0
		h.good++
		if h.good >= riseLimit {
			return healthy{}
		}
		return nil
	}
	h.good = 0
	h.bad++
	if silent && r.late() {
		h.bad++
	}
	if h.bad >= slowLimit {
		return slow{why: r.String()}
	}
	return nil
}

// failureTracker turns failed requests, as the router met them, into suspicion.
type failureTracker struct{ recent []time.Time }

func (f *failureTracker) observe(err error, now time.Time) event {
	f.recent = append(f.recent, now)
	for len(f.recent) > 0 && now.Sub(f.recent[0]) > passiveWindow {
		f.recent = f.recent[1:]
	}
	if len(f.recent) < passiveLimit {
		return nil
	}
	return slow{why: fmt.Sprintf("%d requests failed in %s: %v", len(f.recent), span(passiveWindow), err)}
}

// stallTracker finds an engine that holds work and gets nowhere. Progress is a byte on any stream, a step of the
// scheduler, or a change in the cache's use: the last moves during a long prefill, when nothing else does. The
// engine's gauges of running and waiting requests are no evidence, they stand still when it hangs, and neither is a
// good /health.
type stallTracker struct {
	since    time.Time // of the last sign of progress, or of having nothing to do
	lastByte time.Time
	stats    EngineStats
}

// observe takes what is known now and returns how long the engine has made no progress although it should; 0 = it
// does, or has nothing to do. must says that the engine owes an answer for another reason than held work.
func (s *stallTracker) observe(w Work, stats EngineStats, must bool, now time.Time) time.Duration {
	moved := w.LastByte.After(s.lastByte) || stats.Iterations != s.stats.Iterations || stats.KVUsed != s.stats.KVUsed ||
		stats.GenerationTokens != s.stats.GenerationTokens || stats.PromptTokens != s.stats.PromptTokens
	s.lastByte, s.stats = w.LastByte, stats
	if moved || s.since.IsZero() || (w.Held == 0 && !must) {
		s.since = now
	}
	return now.Sub(s.since)
}

// answered notes that the engine answered a canary.
func (s *stallTracker) answered(now time.Time) { s.since = now }
