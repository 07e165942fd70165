package machine

import (
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// health handles what probes and counters say.
func (m *Machine) health(ev Event, now time.Time) []Effect {
	switch e := ev.(type) {
	case Answers:
		if m.In(supervisor.Starting) {
			return append(m.enter(supervisor.Warming, "", now), m.arm(m.opts.Timing.StartSilence))
		}
	case Warm:
		if m.In(supervisor.Warming, supervisor.Suspect) {
			return m.becomeReady(now)
		}
	case Cold:
		if m.In(supervisor.Warming) || m.Unproven() {
			return m.giveUp(supervisor.Diagnosis{Cause: e.Why}, now)
		}
	case Slow:
		m.healthy = false
		if m.In(supervisor.Ready) {
			return m.enter(supervisor.Suspect, e.Why, now)
		}
	case Healthy:
		m.healthy = true
		if m.In(supervisor.Suspect) && m.warmed {
			return m.becomeReady(now)
		}
	case Dead: // what it holds is lost; its connections must break soon, so that the requests go elsewhere
		if m.Up() || m.In(supervisor.Warming) {
			m.cause = supervisor.Diagnosis{Cause: e.Why}
			return m.slay(m.sequel(), e.Why, now)
		}
	case Hung:
		if m.Up() {
			m.cause, m.hung = supervisor.Diagnosis{Cause: e.Why}, true
			return m.slay(m.sequel(), e.Why, now)
		}
	case Progress:
		if m.In(supervisor.Starting, supervisor.Warming) || m.Unproven() {
			return []Effect{m.arm(m.opts.Timing.StartSilence)}
		}
	case Idle:
		if m.DrainsToEnd() {
			return m.end(m.then, m.note, m.opts.Timing.Grace, now)
		}
	}
	return m.ignore()
}

// becomeReady also starts, or goes on with, the time after which failures are forgiven. A replica that was drained
// stays so: its engine is new, the order is not.
func (m *Machine) becomeReady(now time.Time) []Effect {
	m.healthy = true
	if !m.warmed || m.readyAt.IsZero() {
		m.warmed, m.readyAt = true, now
	}
	if m.drained {
		m.then = afterNothing
		return m.enter(supervisor.Draining, "by order", now)
	}
	effects := m.enter(supervisor.Ready, "", now)
	rest := m.readyAt.Add(m.opts.Timing.StableAfter).Sub(now)
	if rest <= 0 {
		m.forgive()
		return effects
	}
	return append(effects, m.arm(rest))
}

// giveUp ends a process that will not be of use.
func (m *Machine) giveUp(d supervisor.Diagnosis, now time.Time) []Effect {
	m.cause = d
	return m.end(m.sequel(), d.Cause, m.opts.Timing.GraceDead, now)
}

// sequel is what follows an end that nobody ordered: a failure, unless the process was draining for an order.
func (m *Machine) sequel() aftermath {
	if m.DrainsToEnd() {
		return m.then
	}
	return afterFailure
}
