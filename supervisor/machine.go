package supervisor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// machine is the life of one replica as a pure state machine: no clock, no process, no log. doc.go holds its table.
//
// It has at most one process (live) and at most one timer; arming replaces the timer, and a timer that fires late is
// recognised by its number. An event that means nothing in the present state changes nothing and is counted.
type machine struct {
	timing    Timing
	jitter    func() float64
	silentFix string // what helps when a start says nothing for too long

	state State
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
	then       aftermath // what follows once the process is gone
	cause      Diagnosis // why we ended the process, when we did
	aside      Diagnosis // why its GPU is set aside, when then is afterAside

	failures  []time.Time // within FailWindow
	streak    int         // failures since the last lasting readiness: the back-off's exponent
	permanent string      // the last permanent cause
	repeats   int         // how often in a row
	diagnosis Diagnosis
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

// Effects are what the machine wants done.
type (
	effect interface{ isEffect() }

	gateEffect  struct{}                    // wait for the GPU's memory, then report gateOpened
	spawnEffect struct{ generation uint64 } // start the engine, then report spawned or spawnFailed
	stopEffect  struct{ grace time.Duration }
	killEffect  struct{}
	armEffect   struct { // report timerFired{number} after a while, instead of any earlier timer
		after  time.Duration
		number uint64
	}
	disarmEffect struct{}
)

func (gateEffect) isEffect()   {}
func (spawnEffect) isEffect()  {}
func (stopEffect) isEffect()   {}
func (killEffect) isEffect()   {}
func (armEffect) isEffect()    {}
func (disarmEffect) isEffect() {}

// Events are what happened to the replica, or what somebody ordered.
type (
	start   struct{}                      // its turn to start has come
	stop    struct{ drain time.Duration } // 0 = at once
	restart struct{ drain time.Duration } // 0 = at once
	drain   struct{}                      // finish what is held, take nothing new, stay up
	undrain struct{}                      //
	kill    struct{}                      // SIGKILL now
	retry   struct{}                      // forget the failures and start
	sibling struct{ cause string }        // another replica of the model was parked for this permanent cause
	adopted struct{ info ProcessInfo }    // a running engine was found
	aside   struct {                      // a GPU of the replica is set aside
		diagnosis Diagnosis
		gone      bool // nothing on it is worth waiting for
	}
	held    struct{ why string }          // no engine can start now; "" = the hold is over
	gate    struct{ note string }         // the GPU's memory is there, or was waited for long enough
	spawned struct{ info ProcessInfo }    //
	unborn  struct{ diagnosis Diagnosis } // the start failed before there was a process
	exited  struct{}                      // the main process ended
	gone    struct {                      // the whole tree ended
		diagnosis Diagnosis // what the log tells; Cause may be empty
		how       string    // status or signal
	}
	unkilled struct{ pids []int }    // processes outlived SIGKILL
	answers  struct{}                // /health is good, for the first time
	warm     struct{}                // the served name and one real request are good
	cold     struct{ why string }    // they were not, too often
	slow     struct{ why string }    // /health is late, or requests failed on the way
	healthy  struct{}                // /health is good again, several times
	dead     struct{ why string }    // /health says that the engine is dead, or nobody listens any more
	hung     struct{ why string }    // holds work, makes no progress, and does not answer a canary
	progress struct{}                // the log of a start said something new
	idle     struct{}                // holds no request
	fired    struct{ number uint64 } // a timer
)

// event is one of the types above.
type event any

func newMachine(t Timing, jitter func() float64, generation uint64, now time.Time) *machine {
	return &machine{timing: t, jitter: jitter, state: Pending, since: now, generation: generation}
}

// step takes one event and returns what is to be done about it, in order.
func (m *machine) step(ev event, now time.Time) []effect {
	switch e := ev.(type) {
	case start, retry, restart, stop, kill, drain, undrain, sibling:
		return m.order(e, now)
	case aside:
		return m.onAside(e, now)
	case gate, held, spawned, adopted, unborn, exited, gone, unkilled:
		return m.process(e, now)
	case answers, warm, cold, slow, healthy, dead, hung, progress, idle:
		return m.health(e, now)
	case fired:
		return m.onFired(e, now)
	}
	return m.ignore()
}

func (m *machine) ignore() []effect {
	m.ignored++
	return nil
}

// up reports whether the state has a process that may serve.
func (m *machine) up() bool { return m.in(Ready, Suspect, Draining) }

// unproven reports whether the process was adopted and has not answered a real request yet.
func (m *machine) unproven() bool { return m.in(Suspect) && !m.warmed }

func (m *machine) in(states ...State) bool { return slices.Contains(states, m.state) }

// enter changes the state. The timer of the former state is void.
func (m *machine) enter(s State, note string, now time.Time) []effect {
	m.state, m.note, m.since = s, note, now
	m.nextRetry, m.deadline = time.Time{}, time.Time{}
	if m.timer == 0 {
		return nil
	}
	m.timer = 0
	return []effect{disarmEffect{}}
}

func (m *machine) arm(after time.Duration) effect {
	m.timers++
	m.timer = m.timers
	return armEffect{after: after, number: m.timer}
}

// begin is the way to a new process: first the memory gate.
func (m *machine) begin(note string, now time.Time) []effect {
	return append(m.enter(WaitingGPU, note, now), gateEffect{})
}

// end is the way out of a process: SIGTERM first, and a timer in case nothing answers.
func (m *machine) end(then aftermath, note string, grace time.Duration, now time.Time) []effect {
	effects := m.enter(Stopping, note, now)
	m.then, m.kills, m.killing = then, 0, false
	return append(effects, stopEffect{grace: grace}, m.arm(grace+m.timing.StopLimit))
}

// slay is end without waiting for anything.
func (m *machine) slay(then aftermath, note string, now time.Time) []effect {
	effects := m.enter(Stopping, note, now)
	m.then, m.kills, m.killing = then, 0, true
	return append(effects, killEffect{}, m.arm(m.timing.StopLimit))
}

// becomeReady also starts, or goes on with, the time after which failures are forgiven. A replica that was drained
// stays so: its engine is new, the order is not.
func (m *machine) becomeReady(now time.Time) []effect {
	m.healthy = true
	if !m.warmed || m.readyAt.IsZero() {
		m.warmed, m.readyAt = true, now
	}
	if m.drained {
		m.then = afterNothing
		return m.enter(Draining, "by order", now)
	}
	effects := m.enter(Ready, "", now)
	rest := m.readyAt.Add(m.timing.StableAfter).Sub(now)
	if rest <= 0 {
		m.forgive()
		return effects
	}
	return append(effects, m.arm(rest))
}

func (m *machine) forgive() {
	m.failures, m.streak, m.permanent, m.repeats, m.diagnosis = nil, 0, "", 0, Diagnosis{}
}

// fail decides between another try and giving up. The process is gone already.
func (m *machine) fail(d Diagnosis, now time.Time) []effect {
	m.diagnosis = d
	m.streak++
	m.failures = append(slices.DeleteFunc(m.failures, func(at time.Time) bool {
		return now.Sub(at) >= m.timing.FailWindow
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
		return m.enter(Parked, d.Cause, now)
	}
	if len(m.failures) >= failLimit {
		return m.enter(Parked, fmt.Sprintf("%d failures in %s; last: %s", len(m.failures), span(m.timing.FailWindow), d.Cause), now)
	}
	delay := backoff(m.timing, m.streak, m.jitter())
	effects := m.enter(Backoff, d.Cause, now)
	m.nextRetry = now.Add(delay)
	return append(effects, m.arm(delay))
}

// span writes a duration without its zero parts: 15m, not 15m0s.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
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
