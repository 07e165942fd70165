package machine

import (
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// order handles what a person, or warden itself, wants of the replica.
func (m *Machine) order(ev Event, now time.Time) []Effect {
	switch e := ev.(type) {
	case Start:
		if m.In(supervisor.Pending) {
			return m.begin("", now)
		}
	case Retry:
		m.drained = false
		return m.onRetry(now)
	case Restart:
		m.drained = false
		return m.onRestart(e.Drain, now)
	case Stop:
		m.drained = false
		return m.onStop(e.Drain, now)
	case Kill:
		return m.onKill(now)
	case Drain:
		if m.In(supervisor.Ready, supervisor.Suspect) {
			m.then, m.drained = afterNothing, true
			return m.enter(supervisor.Draining, "by order", now)
		}
	case Undrain:
		return m.onUndrain(now)
	case Sibling:
		if !m.live && m.repeats == 0 {
			m.permanent, m.repeats = e.Cause, samePermanent-1
			return nil
		}
	}
	return m.ignore()
}

func (m *Machine) onRetry(now time.Time) []Effect {
	switch m.state {
	case supervisor.Backoff, supervisor.Parked, supervisor.Stopped:
		m.forgive()
		return m.begin("", now)
	case supervisor.Stuck:
		return []Effect{KillEffect{}}
	}
	return m.ignore()
}

func (m *Machine) onRestart(limit time.Duration, now time.Time) []Effect {
	switch {
	case m.Up() && limit > 0:
		return m.drainFirst(afterRestart, RestartNote, limit, now)
	case m.Up() || m.In(supervisor.Starting, supervisor.Warming):
		return m.end(afterRestart, RestartNote, m.opts.Timing.Grace, now)
	case m.In(supervisor.Stopping):
		m.then = afterRestart
		return nil
	case m.In(supervisor.Backoff, supervisor.Parked, supervisor.Stopped):
		return m.onRetry(now)
	}
	return m.ignore()
}

// RestartNote is the note of a state that an ordered restart passes through.
const RestartNote = "restart"

func (m *Machine) onStop(limit time.Duration, now time.Time) []Effect {
	switch {
	case m.Up() && limit > 0:
		return m.drainFirst(afterStop, "stop", limit, now)
	case m.Up() || m.In(supervisor.Starting, supervisor.Warming):
		return m.end(afterStop, "", m.opts.Timing.Grace, now)
	case m.In(supervisor.Stopping, supervisor.Stuck):
		m.then = afterStop
		return nil
	case m.In(supervisor.Pending, supervisor.WaitingGPU, supervisor.Backoff, supervisor.Parked):
		return m.enter(supervisor.Stopped, "", now)
	}
	return m.ignore()
}

func (m *Machine) drainFirst(then aftermath, note string, limit time.Duration, now time.Time) []Effect {
	effects := m.enter(supervisor.Draining, note, now)
	m.then, m.deadline = then, now.Add(limit)
	return append(effects, m.arm(limit))
}

// onKill ends the process at once. What comes after stays as it was; of a running one, a new start.
func (m *Machine) onKill(now time.Time) []Effect {
	switch {
	case m.In(supervisor.Stopping):
		m.killing = true
		return []Effect{KillEffect{}, m.arm(m.opts.Timing.StopLimit)}
	case m.In(supervisor.Stuck):
		return []Effect{KillEffect{}}
	case m.In(supervisor.Draining) && m.then == afterStop:
		return m.slay(afterStop, "killed by order", now)
	case m.Up() || m.In(supervisor.Starting, supervisor.Warming):
		return m.slay(afterRestart, "killed by order", now)
	}
	return m.ignore()
}

func (m *Machine) onUndrain(now time.Time) []Effect {
	drained := m.drained
	m.drained = false
	switch {
	case !m.In(supervisor.Draining) && drained: // its engine is just being started anew
		return nil
	case !m.In(supervisor.Draining) || m.then == afterStop || m.then == afterAside:
		return m.ignore()
	case m.healthy && m.warmed:
		return m.becomeReady(now)
	}
	return m.enter(supervisor.Suspect, "not healthy when the drain ended", now)
}

// onAside takes a replica off a GPU that must not be used. What it holds may finish where the GPU still works; the wait
// ends soon, because the next step of a person is a reset.
func (m *Machine) onAside(e Aside, now time.Time) []Effect {
	why := e.Diagnosis.Cause
	switch {
	case m.In(supervisor.Pending, supervisor.WaitingGPU, supervisor.Backoff, supervisor.Parked):
		m.diagnosis = e.Diagnosis
		return m.enter(supervisor.Parked, why, now)
	case m.In(supervisor.Draining, supervisor.Stopping, supervisor.Stuck) && m.then == afterStop, m.In(supervisor.Stopped):
		return m.ignore()
	case m.In(supervisor.Draining) && m.then == afterAside && !e.Gone:
		return nil // it is on its way, and its time goes on
	}
	m.aside = e.Diagnosis
	switch {
	case m.In(supervisor.Stopping, supervisor.Stuck):
		m.then = afterAside
		return nil
	case e.Gone:
		return m.slay(afterAside, why, now)
	case m.Up():
		return m.drainFirst(afterAside, why, AsideDrain, now)
	}
	return m.end(afterAside, why, m.opts.Timing.GraceDead, now)
}
