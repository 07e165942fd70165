package machine

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// The wall clock is set back and forth by an hour while all is well. Durations are taken from the monotonic clock, but a
// machine must survive even times without a monotonic part.
func TestClockJumps(t *testing.T) {
	for _, jump := range []time.Duration{time.Hour, -time.Hour} {
		m := driven(toReady...)
		for _, ev := range []Event{Slow{}, Healthy{}, Slow{}, Healthy{}} {
			for _, e := range m.step(ev, m.since.Add(jump)) {
				switch e.(type) {
				case StopEffect, KillEffect, SpawnEffect:
					t.Errorf("jump of %s: %T because of the clock", jump, e)
				}
			}
		}
		if m.state != supervisor.Ready {
			t.Errorf("jump of %s: %s", jump, m.state)
		}
		m.step(Exited{}, m.since.Add(jump))
		m.step(Gone{Diagnosis: passing}, m.since)
		if wait := m.nextRetry.Sub(m.since); m.state != supervisor.Backoff || wait < 0 || wait > m.opts.Timing.BackoffMax {
			t.Errorf("jump of %s: %s, next start in %s", jump, m.state, wait)
		}
	}
}
