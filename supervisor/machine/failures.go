package machine

import (
	"fmt"
	"slices"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/internal/span"
)

// fail decides between another try and giving up. The process is gone already.
func (m *Machine) fail(d supervisor.Diagnosis, now time.Time) []Effect {
	m.diagnosis = d
	m.streak++
	m.failures = append(slices.DeleteFunc(m.failures, func(at time.Time) bool {
		return now.Sub(at) >= m.opts.Timing.FailWindow
	}), now)
	if d.Permanent && !m.warmed {
		if d.Cause != m.permanent {
			m.permanent, m.repeats = d.Cause, 0
		}
		m.repeats++
	} else {
		m.permanent, m.repeats = "", 0
	}
	if m.repeats >= samePermanent {
		return m.enter(supervisor.Parked, d.Cause, now)
	}
	if len(m.failures) >= FailLimit {
		return m.enter(supervisor.Parked, fmt.Sprintf("%d failures in %s; last: %s", len(m.failures), span.Text(m.opts.Timing.FailWindow), d.Cause), now)
	}
	delay := backoff(m.opts.Timing, m.streak, m.opts.Jitter())
	effects := m.enter(supervisor.Backoff, d.Cause, now)
	m.nextRetry = now.Add(delay)
	return append(effects, m.arm(delay))
}

func (m *Machine) forgive() {
	m.failures, m.streak, m.permanent, m.repeats, m.diagnosis = nil, 0, "", 0, supervisor.Diagnosis{}
}

// backoff is the delay before the next start after the given number of failures in a row: full jitter, so that
// replicas that failed together do not start together.
func backoff(t Timing, streak int, random float64) time.Duration {
	ceiling := t.BackoffMax
	if shift := streak - 1; shift < 32 && t.BackoffBase<<shift < ceiling && t.BackoffBase<<shift > 0 {
		ceiling = t.BackoffBase << shift
	}
	return time.Duration(random * float64(ceiling))
}

// RestartCause says why a process that has just ended will be followed by another, if it will.
func (m *Machine) RestartCause() supervisor.RestartCause {
	switch {
	case m.then == afterRestart || m.then == afterStop:
		return supervisor.RestartOrder
	case m.hung:
		return supervisor.RestartHang
	case !m.warmed:
		return supervisor.RestartStart
	}
	return supervisor.RestartCrash
}
