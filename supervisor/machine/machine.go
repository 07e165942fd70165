package machine

import (
	"slices"
	"time"

	"github.com/lm-warden/warden/supervisor"
)

// Machine is the life of one replica as a pure state machine: no clock, no process, no log. doc.go holds its table.
//
// It has at most one process (live) and at most one timer; arming replaces the timer, and a timer that fires late is
// recognised by its number. An event that means nothing in the present state changes nothing and is counted.
type Machine struct {
	opts Options

	state supervisor.State
	note  string
	since time.Time

	live       bool // a process exists or is being started
	warmed     bool // the present process has answered a real request
	healthy    bool // the last word on /health was good
	adopted    bool
	killing    bool // SIGKILL was ordered
	hung       bool // the present process was found hanging
	drained    bool // taken out of service by order: outlives the process
	kills      int  // orders to kill without an answer
	generation uint64
	startedAt  time.Time
	readyAt    time.Time
	then       aftermath            // what follows once the process is gone
	cause      supervisor.Diagnosis // why we ended the process, when we did
	aside      supervisor.Diagnosis // why its GPU is set aside, when then is afterAside

	failures  []time.Time // within FailWindow
	streak    int         // failures since the last lasting readiness: the back-off's exponent
	permanent string      // the last permanent cause
	repeats   int         // how often in a row
	diagnosis supervisor.Diagnosis
	nextRetry time.Time // in backoff
	deadline  time.Time // of a drain

	timer   uint64 // number of the armed timer; 0 = none
	timers  uint64
	ignored int
}

// aftermath is what follows the end of a process.
type aftermath int

const (
	afterFailure aftermath = iota // it ended although it was wanted: back-off
	afterRestart                  // it was ordered to start anew
	afterStop                     // it was ordered to stay down
	afterNothing                  // draining only: stays up
	afterAside                    // its GPU was set aside: parked
)

// Options are what a Machine decides with.
type Options struct {
	Timing    Timing
	Jitter    func() float64 // uniform in [0,1), scatters the starts after failures; nil = each delay is the longest
	SilentFix string         // what helps when a start says nothing for too long
}

// New returns the machine of a replica that has not run yet. generation is that of its last engine, 0 = it never had one.
func New(o Options, generation uint64, now time.Time) *Machine {
	o.Timing = o.Timing.withDefaults()
	if o.Jitter == nil {
		o.Jitter = func() float64 { return 1 }
	}
	return &Machine{opts: o, state: supervisor.Pending, since: now, generation: generation}
}

// Step takes one event and returns what is to be done about it, in order. used is false when the event meant nothing
// in the present state.
func (m *Machine) Step(ev Event, now time.Time) (effects []Effect, used bool) {
	before := m.ignored
	effects = m.step(ev, now)
	return effects, m.ignored == before
}

func (m *Machine) step(ev Event, now time.Time) []Effect {
	switch e := ev.(type) {
	case Start, Retry, Restart, Stop, Kill, Drain, Undrain, Sibling:
		return m.order(e, now)
	case Aside:
		return m.onAside(e, now)
	case Gate, Held, Spawned, Adopted, Unborn, Exited, Gone, Unkilled:
		return m.process(e, now)
	case Answers, Warm, Cold, Slow, Healthy, Dead, Hung, Progress, Idle:
		return m.health(e, now)
	case Fired:
		return m.onFired(e, now)
	}
	return m.ignore()
}

func (m *Machine) ignore() []Effect {
	m.ignored++
	return nil
}

// In reports whether the machine is in one of the states.
func (m *Machine) In(states ...supervisor.State) bool { return slices.Contains(states, m.state) }

// enter changes the state. The timer of the former state is void.
func (m *Machine) enter(s supervisor.State, note string, now time.Time) []Effect {
	m.state, m.note, m.since = s, note, now
	m.nextRetry, m.deadline = time.Time{}, time.Time{}
	if m.timer == 0 {
		return nil
	}
	m.timer = 0
	return []Effect{DisarmEffect{}}
}

func (m *Machine) arm(after time.Duration) Effect {
	m.timers++
	m.timer = m.timers
	return ArmEffect{After: after, Number: m.timer}
}

// begin is the way to a new process: first the memory gate.
func (m *Machine) begin(note string, now time.Time) []Effect {
	return append(m.enter(supervisor.WaitingGPU, note, now), GateEffect{})
}

// end is the way out of a process: SIGTERM first, and a timer in case nothing answers.
func (m *Machine) end(then aftermath, note string, grace time.Duration, now time.Time) []Effect {
	effects := m.enter(supervisor.Stopping, note, now)
	m.then, m.kills, m.killing = then, 0, false
	return append(effects, StopEffect{Grace: grace}, m.arm(grace+m.opts.Timing.StopLimit))
}

// slay is end without waiting for anything.
func (m *Machine) slay(then aftermath, note string, now time.Time) []Effect {
	effects := m.enter(supervisor.Stopping, note, now)
	m.then, m.kills, m.killing = then, 0, true
	return append(effects, KillEffect{}, m.arm(m.opts.Timing.StopLimit))
}
