package supervisor

import (
	"fmt"
	"time"
)

// order handles what a person, or warden itself, wants of the replica.
func (m *machine) order(ev event, now time.Time) []effect {
	switch e := ev.(type) {
	case start:
		if m.in(Pending) {
			return m.begin("", now)
		}
	case retry:
		m.drained = false
		return m.onRetry(now)
	case restart:
		m.drained = false
		return m.onRestart(e.drain, now)
	case stop:
		m.drained = false
		return m.onStop(e.drain, now)
	case kill:
		return m.onKill(now)
	case drain:
		if m.in(Ready, Suspect) {
			m.then, m.drained = afterNothing, true
			return m.enter(Draining, "by order", now)
		}
	case undrain:
		return m.onUndrain(now)
	case sibling:
		if !m.live && m.repeats == 0 {
			m.permanent, m.repeats = e.cause, samePermanent-1
			return nil
		}
	}
	return m.ignore()
}

func (m *machine) onRetry(now time.Time) []effect {
	switch m.state {
	case Backoff, Parked, Stopped:
		m.forgive()
		return m.begin("", now)
	case Stuck:
		return []effect{killEffect{}}
	}
	return m.ignore()
}

func (m *machine) onRestart(limit time.Duration, now time.Time) []effect {
	switch {
	case m.up() && limit > 0:
		return m.drainFirst(afterRestart, restartNote, limit, now)
	case m.up() || m.in(Starting, Warming):
		return m.end(afterRestart, restartNote, m.timing.Grace, now)
	case m.in(Stopping):
		m.then = afterRestart
		return nil
	case m.in(Backoff, Parked, Stopped):
		return m.onRetry(now)
	}
	return m.ignore()
}

func (m *machine) onStop(limit time.Duration, now time.Time) []effect {
	switch {
	case m.up() && limit > 0:
		return m.drainFirst(afterStop, "stop", limit, now)
	case m.up() || m.in(Starting, Warming):
		return m.end(afterStop, "", m.timing.Grace, now)
	case m.in(Stopping, Stuck):
		m.then = afterStop
		return nil
	case m.in(Pending, WaitingGPU, Backoff, Parked):
		return m.enter(Stopped, "", now)
	}
	return m.ignore()
}

func (m *machine) drainFirst(then aftermath, note string, limit time.Duration, now time.Time) []effect {
	effects := m.enter(Draining, note, now)
	m.then, m.deadline = then, now.Add(limit)
	return append(effects, m.arm(limit))
}

// onKill ends the process at once. What comes after stays as it was; of a running one, a new start.
func (m *machine) onKill(now time.Time) []effect {
	switch {
	case m.in(Stopping):
		m.killing = true
		return []effect{killEffect{}, m.arm(m.timing.StopLimit)}
	case m.in(Stuck):
		return []effect{killEffect{}}
	case m.in(Draining) && m.then == afterStop:
		return m.slay(afterStop, "killed by order", now)
	case m.up() || m.in(Starting, Warming):
		return m.slay(afterRestart, "killed by order", now)
	}
	return m.ignore()
}

func (m *machine) onUndrain(now time.Time) []effect {
	drained := m.drained
	m.drained = false
	switch {
	case !m.in(Draining) && drained: // its engine is just being started anew
		return nil
	case !m.in(Draining) || m.then == afterStop || m.then == afterAside:
		return m.ignore()
	case m.healthy && m.warmed:
		return m.becomeReady(now)
	}
	return m.enter(Suspect, "not healthy when the drain ended", now)
}

// onAside takes a replica off a GPU that must not be used. What it holds may finish where the GPU still works; the wait
// ends soon, because the next step of a person is a reset.
func (m *machine) onAside(e aside, now time.Time) []effect {
	why := e.diagnosis.Cause
	switch {
	case m.in(Pending, WaitingGPU, Backoff, Parked):
		m.diagnosis = e.diagnosis
		return m.enter(Parked, why, now)
	case m.in(Draining, Stopping, Stuck) && m.then == afterStop, m.in(Stopped):
		return m.ignore()
	case m.in(Draining) && m.then == afterAside && !e.gone:
		return nil // it is on its way, and its time goes on
	}
	m.aside = e.diagnosis
	switch {
	case m.in(Stopping, Stuck):
		m.then = afterAside
		return nil
	case e.gone:
		return m.slay(afterAside, why, now)
	case m.up():
		return m.drainFirst(afterAside, why, asideDrain, now)
	}
	return m.end(afterAside, why, m.timing.GraceDead, now)
}

// process handles what the launcher reports.
func (m *machine) process(ev event, now time.Time) []effect {
	switch e := ev.(type) {
	case gate:
		if m.in(WaitingGPU) && !m.live {
			m.generation++
			m.live, m.warmed, m.healthy, m.adopted, m.hung = true, false, false, false, false
			m.startedAt, m.readyAt, m.then, m.cause = now, time.Time{}, afterFailure, Diagnosis{}
			effects := append(m.enter(Starting, e.note, now), spawnEffect{generation: m.generation})
			return append(effects, m.arm(m.timing.StartSilence))
		}
	case held:
		if m.in(WaitingGPU) {
			m.note = e.why
			return nil
		}
	case adopted:
		return m.onAdopted(e, now)
	case spawned:
		return m.onSpawned(e)
	case unborn:
		if m.live && m.in(Starting, Stopping) {
			return m.ended(e.diagnosis, now)
		}
	case exited:
		if m.live && !m.in(Stopping, Stuck) {
			return m.onExited(now)
		}
	case gone:
		if m.live {
			return m.ended(m.explain(e), now)
		}
	case unkilled:
		if m.in(Stopping) {
			return m.enter(Stuck, fmt.Sprintf("processes %v cannot be killed; a reboot may be needed", e.pids), now)
		}
	}
	return m.ignore()
}

// onAdopted takes over a running engine. One that was found after the order to stop is ended.
func (m *machine) onAdopted(e adopted, now time.Time) []effect {
	if m.live || !m.in(Pending, Stopped) {
		return m.ignore()
	}
	m.generation = max(m.generation, e.info.Generation)
	m.live, m.adopted, m.startedAt = true, true, e.info.StartedAt
	if m.in(Stopped) {
		return m.end(afterStop, "found running after the order to stop", m.timing.Grace, now)
	}
	// It may still be loading, so it gets the time of a start.
	return append(m.enter(Suspect, "adopted, being checked", now), m.arm(m.timing.StartSilence))
}

// onSpawned repeats an order that came while there was no process to take it.
func (m *machine) onSpawned(e spawned) []effect {
	switch {
	case m.in(Starting):
		m.startedAt = e.info.StartedAt
		return nil
	case m.in(Stopping) && m.killing:
		return []effect{killEffect{}}
	case m.in(Stopping):
		return []effect{stopEffect{grace: m.timing.Grace}}
	}
	return m.ignore()
}

// onExited waits for the rest of the tree: the launcher is ending it. Draining for an order keeps that order.
func (m *machine) onExited(now time.Time) []effect {
	m.then = m.sequel()
	effects := m.enter(Stopping, "engine exited; ending what it left", now)
	m.kills, m.killing = 0, false
	return append(effects, m.arm(m.timing.StopLimit))
}

// explain chooses among what a line of the log says, why we ended the process ourselves, what the engine package makes
// of the exit alone, and the bare exit.
func (m *machine) explain(e gone) Diagnosis {
	switch {
	case e.diagnosis.Line == "" && m.cause.Cause != "":
		return m.cause
	case e.diagnosis.Cause != "":
		return e.diagnosis
	}
	return Diagnosis{Cause: e.how}
}

// ended is called when no process is left.
func (m *machine) ended(d Diagnosis, now time.Time) []effect {
	m.live = false
	switch m.then {
	case afterStop:
		return m.enter(Stopped, "", now)
	case afterRestart:
		return m.begin(restartNote, now)
	case afterAside:
		m.diagnosis = m.aside
		return m.enter(Parked, m.aside.Cause, now)
	}
	return m.fail(d, now)
}

// health handles what probes and counters say.
func (m *machine) health(ev event, now time.Time) []effect {
	switch e := ev.(type) {
	case answers:
		if m.in(Starting) {
			return append(m.enter(Warming, "", now), m.arm(m.timing.StartSilence))
		}
	case warm:
		if m.in(Warming, Suspect) {
			return m.becomeReady(now)
		}
	case cold:
		if m.in(Warming) || m.unproven() {
			return m.giveUp(Diagnosis{Cause: e.why}, now)
		}
	case slow:
		m.healthy = false
		if m.in(Ready) {
			return m.enter(Suspect, e.why, now)
		}
	case healthy:
		m.healthy = true
		if m.in(Suspect) && m.warmed {
			return m.becomeReady(now)
		}
	case dead: // what it holds is lost; its connections must break soon, so that the requests go elsewhere
		if m.up() || m.in(Warming) {
			m.cause = Diagnosis{Cause: e.why}
			return m.slay(m.sequel(), e.why, now)
		}
	case hung:
		if m.up() {
			m.cause, m.hung = Diagnosis{Cause: e.why}, true
			return m.slay(m.sequel(), e.why, now)
		}
	case progress:
		if m.in(Starting, Warming) || m.unproven() {
			return []effect{m.arm(m.timing.StartSilence)}
		}
	case idle:
		if m.in(Draining) && m.then != afterNothing {
			return m.end(m.then, m.note, m.timing.Grace, now)
		}
	}
	return m.ignore()
}

// giveUp ends a process that will not be of use.
func (m *machine) giveUp(d Diagnosis, now time.Time) []effect {
	m.cause = d
	return m.end(m.sequel(), d.Cause, m.timing.GraceDead, now)
}

// sequel is what follows an end that nobody ordered: a failure, unless the process was draining for an order.
func (m *machine) sequel() aftermath {
	if m.in(Draining) && m.then != afterNothing {
		return m.then
	}
	return afterFailure
}

// onFired handles the one timer, whose meaning is the state's.
func (m *machine) onFired(e fired, now time.Time) []effect {
	if e.number != m.timer || m.timer == 0 {
		return m.ignore()
	}
	m.timer = 0
	switch m.state {
	case Starting, Warming, Suspect:
		return m.giveUp(Diagnosis{Cause: fmt.Sprintf("no progress in the log for %s", span(m.timing.StartSilence)),
			Fix: m.silentFix}, now)
	case Ready:
		m.forgive()
		return nil
	case Draining:
		return m.end(m.then, m.note+"; drain time is over", m.timing.Grace, now)
	case Backoff:
		return m.begin("", now)
	case Stopping:
		if m.kills++; m.kills > killOrders {
			return m.enter(Stuck, "its processes do not end and nobody answers for them", now)
		}
		m.killing = true
		return []effect{killEffect{}, m.arm(m.timing.StopLimit)}
	}
	return m.ignore()
}

// restartNote is the note of a state that an ordered restart passes through.
const restartNote = "restart"

// killOrders is how often a kill is repeated, StopLimit apart, before a replica counts as stuck.
const killOrders = 3
