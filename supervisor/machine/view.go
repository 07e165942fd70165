package machine

import (
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// View is what a Machine knows of its replica, as others may see it.
type View struct {
	State supervisor.State
	Note  string    // why it is in that state
	Since time.Time // when State was entered

	Live       bool // a process exists or is being started
	Adopted    bool // the process was started by an earlier warden
	Generation uint64
	StartedAt  time.Time // of the present or last process
	ReadyAt    time.Time // zero = not yet
	Aside      bool      // its GPU was set aside: parked, or on the way there
	Returns    bool      // its engine ends, or drains for that, and another one is to follow

	Failures  int // within FailWindow
	Streak    int // failures since the last lasting readiness
	Diagnosis supervisor.Diagnosis
	NextRetry time.Time // in backoff
	Deadline  time.Time // of a drain
}

// View returns a copy.
func (m *Machine) View() View {
	return View{
		State: m.state, Note: m.note, Since: m.since,
		Live: m.live, Adopted: m.adopted, Generation: m.generation, StartedAt: m.startedAt, ReadyAt: m.readyAt,
		Aside:    m.then == afterAside,
		Returns:  m.then == afterRestart && m.In(supervisor.Stopping, supervisor.Draining) || m.then == afterFailure && m.In(supervisor.Stopping),
		Failures: len(m.failures), Streak: m.streak, Diagnosis: m.diagnosis, NextRetry: m.nextRetry, Deadline: m.deadline,
	}
}

// FreshlyReady reports whether the present process has just become ready for the first time.
func (v View) FreshlyReady() bool { return v.State == supervisor.Ready && v.ReadyAt.Equal(v.Since) }

// Up reports whether the replica has a process that may serve.
func (m *Machine) Up() bool { return m.In(supervisor.Ready, supervisor.Suspect, supervisor.Draining) }

// Unproven reports whether the process was adopted and has not answered a real request yet.
func (m *Machine) Unproven() bool { return m.In(supervisor.Suspect) && !m.warmed }

// DrainsToEnd reports whether the replica drains on the way to an end: it is to report Idle.
func (m *Machine) DrainsToEnd() bool { return m.In(supervisor.Draining) && m.then != afterNothing }
