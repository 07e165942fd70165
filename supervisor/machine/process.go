package machine

import (
	"fmt"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/internal/span"
)

// process handles what the launcher reports.
func (m *Machine) process(ev Event, now time.Time) []Effect {
	switch e := ev.(type) {
	case Gate:
		if m.In(supervisor.WaitingGPU) && !m.live {
			m.generation++
			m.live, m.warmed, m.healthy, m.adopted, m.hung = true, false, false, false, false
			m.startedAt, m.readyAt, m.then, m.cause = now, time.Time{}, afterFailure, supervisor.Diagnosis{}
			effects := append(m.enter(supervisor.Starting, e.Note, now), SpawnEffect{Generation: m.generation})
			return append(effects, m.arm(m.opts.Timing.StartSilence))
		}
	case Held:
		if m.In(supervisor.WaitingGPU) {
			m.note = e.Why
			return nil
		}
	case Adopted:
		return m.onAdopted(e, now)
	case Spawned:
		return m.onSpawned(e)
	case Unborn:
		if m.live && m.In(supervisor.Starting, supervisor.Stopping) {
			return m.ended(e.Diagnosis, now)
		}
	case Exited:
		if m.live && !m.In(supervisor.Stopping, supervisor.Stuck) {
			return m.onExited(now)
		}
	case Gone:
		if m.live {
			return m.ended(m.explain(e), now)
		}
	case Unkilled:
		if m.In(supervisor.Stopping) {
			return m.enter(supervisor.Stuck, fmt.Sprintf("processes %v cannot be killed; a reboot may be needed", e.PIDs), now)
		}
	}
	return m.ignore()
}

// onAdopted takes over a running engine. One that was found after the order to stop is ended.
func (m *Machine) onAdopted(e Adopted, now time.Time) []Effect {
	if m.live || !m.In(supervisor.Pending, supervisor.Stopped) {
		return m.ignore()
	}
	m.generation = max(m.generation, e.Info.Generation)
	m.live, m.adopted, m.startedAt = true, true, e.Info.StartedAt
	if m.In(supervisor.Stopped) {
		return m.end(afterStop, "found running after the order to stop", m.opts.Timing.Grace, now)
	}
	// It may still be loading, so it gets the time of a start.
	return append(m.enter(supervisor.Suspect, "adopted, being checked", now), m.arm(m.opts.Timing.StartSilence))
}

// onSpawned repeats an order that came while there was no process to take it.
func (m *Machine) onSpawned(e Spawned) []Effect {
	switch {
	case m.In(supervisor.Starting):
		m.startedAt = e.Info.StartedAt
		return nil
	case m.In(supervisor.Stopping) && m.killing:
		return []Effect{KillEffect{}}
	case m.In(supervisor.Stopping):
		return []Effect{StopEffect{Grace: m.opts.Timing.Grace}}
	}
	return m.ignore()
}

// onExited waits for the rest of the tree: the launcher is ending it. Draining for an order keeps that order.
func (m *Machine) onExited(now time.Time) []Effect {
	m.then = m.sequel()
	effects := m.enter(supervisor.Stopping, "engine exited; ending what it left", now)
	m.kills, m.killing = 0, false
	return append(effects, m.arm(m.opts.Timing.StopLimit))
}

// explain chooses among what a line of the log says, why we ended the process ourselves, what the engine package makes
// of the exit alone, and the bare exit.
func (m *Machine) explain(e Gone) supervisor.Diagnosis {
	switch {
	case e.Diagnosis.Line == "" && m.cause.Cause != "":
		return m.cause
	case e.Diagnosis.Cause != "":
		return e.Diagnosis
	}
	return supervisor.Diagnosis{Cause: e.How}
}

// ended is called when no process is left.
func (m *Machine) ended(d supervisor.Diagnosis, now time.Time) []Effect {
	m.live = false
	switch m.then {
	case afterStop:
		return m.enter(supervisor.Stopped, "", now)
	case afterRestart:
		return m.begin(RestartNote, now)
	case afterAside:
		m.diagnosis = m.aside
		return m.enter(supervisor.Parked, m.aside.Cause, now)
	}
	return m.fail(d, now)
}

// onFired handles the one timer, whose meaning is the state's.
func (m *Machine) onFired(e Fired, now time.Time) []Effect {
	if e.Number != m.timer || m.timer == 0 {
		return m.ignore()
	}
	m.timer = 0
	switch m.state {
	case supervisor.Starting, supervisor.Warming, supervisor.Suspect:
		return m.giveUp(supervisor.Diagnosis{Cause: fmt.Sprintf("no progress in the log for %s", span.Text(m.opts.Timing.StartSilence)),
			Fix: m.opts.SilentFix}, now)
	case supervisor.Ready:
		m.forgive()
		return nil
	case supervisor.Draining:
		return m.end(m.then, m.note+"; drain time is over", m.opts.Timing.Grace, now)
	case supervisor.Backoff:
		return m.begin("", now)
	case supervisor.Stopping:
		if m.kills++; m.kills > killOrders {
			return m.enter(supervisor.Stuck, "its processes do not end and nobody answers for them", now)
		}
		m.killing = true
		return []Effect{KillEffect{}, m.arm(m.opts.Timing.StopLimit)}
	}
	return m.ignore()
}
