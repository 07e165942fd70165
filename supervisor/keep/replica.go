package keep

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/ledger"
	"github.com/lm-warden/warden/supervisor/machine"
	"github.com/lm-warden/warden/supervisor/probe"
)

// replica runs one machine: a single goroutine feeds it events, carries out its effects, and publishes copies of what
// is known. Everything that may wait (starting a process, probing, the memory gate) runs beside it and reports back
// through the inbox, so an order is never kept waiting.
type replica struct {
	spec    supervisor.Spec
	opts    *Options
	ledger  *ledger.Ledger
	dial    probe.Dial
	log     *slog.Logger
	changed func() // tells the supervisor that a state changed

	inbox   chan delivery
	reports chan report
	ended   chan struct{} // closed when run has returned

	// Owned by run.
	m         *machine.Machine
	life      context.Context // of the tasks beside the loop
	tasks     sync.WaitGroup
	timer     *time.Timer
	number    uint64 // of the armed timer
	drainTick *time.Ticker
	stopGate  context.CancelFunc // nil = no gate is waited for
	watch     *watch             // nil = no process is watched
	proc      supervisor.Process // nil = none
	events    <-chan supervisor.ProcessEvent
	out       *startLog
	failed    probe.FailureTracker
	baseline  uint64 // free GPU memory found before the last start, bytes
	starts    int
	cause     supervisor.RestartCause // why the last process that ended will be followed by another
	restarts  supervisor.RestartCounts
	progress  time.Time // when the machine last heard of progress
	facts     facts

	mu   sync.Mutex
	last supervisor.Replica // what Snapshot returns
}

// facts are what is known of the present or last process beside the machine's own state.
type facts struct {
	pid     int
	exit    *supervisor.Exit
	stats   supervisor.EngineStats
	served  probe.Served
	version string
	took    time.Duration          // last successful start of the model
	phases  []supervisor.PhaseTime // of this replica's own
}

// delivery is a message to the loop. reply tells whether the machine had a use for it.
type delivery struct {
	message any // an event of the machine or one of the messages below
	reply   chan bool
}

// Messages that carry more than an event of the machine.
type (
	launched struct {
		proc supervisor.Process
		err  error
		perm bool // the command itself is wrong
	}
	found    struct{ proc supervisor.Process } // a running engine to adopt
	gateDone struct {
		note string
		free uint64
	}
	statsRead struct {
		generation uint64
		stats      supervisor.EngineStats
	}
	known struct {
		served  probe.Served
		version string
	}
)

// report is a failed request as the router met it.
type report struct {
	generation uint64
	err        error
}

// drainLook is how often a draining replica is looked at for being idle.
const drainLook = 50 * time.Millisecond

// progressEvery keeps a chatty start from re-arming its timer on every line.
const progressEvery = time.Second

func newReplica(spec supervisor.Spec, s *Supervisor) *replica {
	now := time.Now()
	r := &replica{
		spec: spec, opts: &s.opts, ledger: s.ledger, dial: s.dial, changed: s.poke,
		log:     s.opts.Log.With("replica", string(spec.ID), "model", spec.Model),
		inbox:   make(chan delivery),
		reports: make(chan report, 16),
		ended:   make(chan struct{}),
		m: machine.New(machine.Options{
			Timing: s.opts.Timing.Timing, Jitter: s.opts.Jitter, SilentFix: silentFix(spec),
		}, s.ledger.Generation(spec.ID), now),
		out:   newStartLog(now),
		facts: facts{took: s.ledger.LastStart(spec)},
	}
	r.last = r.describe()
	return r
}

// run returns when ctx ends. A process that still runs then is let go of, not ended.
func (r *replica) run(ctx context.Context) {
	defer close(r.ended)
	life, cancel := context.WithCancel(ctx)
	r.life = life
	r.timer = time.NewTimer(time.Hour)
	r.timer.Stop()
	r.drainTick = time.NewTicker(drainLook)
	r.drainTick.Stop()
	defer func() {
		cancel()
		r.timer.Stop()
		r.drainTick.Stop()
		if r.proc != nil {
			r.proc.Close()
		}
		r.tasks.Wait()
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case d := <-r.inbox:
			d.reply <- r.receive(d.message)
		case f := <-r.reports:
			r.onReport(f)
		case e, more := <-r.events:
			if more {
				r.onProcess(e)
			} else {
				r.events = nil
			}
		case <-r.timer.C:
			r.handle(machine.Fired{Number: r.number})
		case <-r.drainTick.C:
			if r.opts.Work(r.spec.ID).Held == 0 {
				r.handle(machine.Idle{})
			}
		}
	}
}

// post hands a message to the loop and waits until it was dealt with. used tells whether it meant anything to the
// machine; delivered is false when the loop has ended, or ctx did first.
func (r *replica) post(ctx context.Context, message any) (used, delivered bool) {
	d := delivery{message: message, reply: make(chan bool, 1)}
	select {
	case r.inbox <- d:
	case <-ctx.Done():
		return false, false
	case <-r.ended:
		return false, false
	}
	select {
	case used := <-d.reply:
		return used, true
	case <-r.ended:
		return false, false
	}
}

// receive deals with one message.
func (r *replica) receive(message any) (used bool) {
	switch msg := message.(type) {
	case launched:
		return r.onLaunched(msg)
	case found:
		used = r.onFound(msg.proc)
		if ev, is := r.setAside(); is && used {
			r.handle(ev)
		}
		return used
	case machine.Retry:
		if r.m.In(supervisor.Backoff, supervisor.Parked, supervisor.Stopped) {
			r.takeBack()
		}
	case gateDone:
		r.stopGate = nil
		r.baseline = msg.free
		return r.handle(machine.Gate{Note: msg.note})
	case statsRead:
		if msg.generation != r.m.View().Generation || r.proc == nil {
			return false
		}
		r.facts.stats = msg.stats
		r.publish()
		return true
	case known:
		r.facts.served, r.facts.version = msg.served, msg.version
		return true
	}
	return r.handle(message)
}

// handle steps the machine and does what it says.
func (r *replica) handle(ev machine.Event) (used bool) {
	before, drained := r.m.View(), r.m.DrainsToEnd()
	effects, used := r.m.Step(ev, time.Now())
	for _, e := range effects {
		r.perform(e)
	}
	now := r.m.View()
	if before.Live && !now.Live {
		r.cause = r.m.RestartCause()
	}
	if drains := r.m.DrainsToEnd(); drains != drained { // also where a drain without an end is given one
		r.lookForIdle(drains)
	}
	moved := now.State != before.State
	if moved {
		r.entered(now)
	}
	if used {
		r.publish()
	}
	if moved { // told after it can be seen
		r.announce(before.State, now)
		r.changed()
	}
	return used
}

func (r *replica) perform(e machine.Effect) {
	switch e := e.(type) {
	case machine.GateEffect:
		r.waitForGate()
	case machine.SpawnEffect:
		r.spawn(e.Generation)
	case machine.StopEffect:
		if r.proc != nil { // otherwise it is just being started, and the machine orders again
			r.proc.Stop(e.Grace)
		}
	case machine.KillEffect:
		if r.proc != nil {
			r.proc.Kill()
		}
	case machine.ArmEffect:
		r.number = e.Number
		r.timer.Reset(e.After)
	case machine.DisarmEffect:
		r.timer.Stop()
	}
}

// entered keeps what runs beside the machine in line with its state.
func (r *replica) entered(now machine.View) {
	if now.State != supervisor.WaitingGPU && r.stopGate != nil {
		r.stopGate()
		r.stopGate = nil
	}
	if r.watch != nil && !r.m.In(watched...) {
		r.watch.stop()
		r.watch = nil
	}
	if now.FreshlyReady() && !now.Adopted {
		r.facts.took = now.ReadyAt.Sub(now.StartedAt)
		r.facts.phases = r.out.durations(now.ReadyAt)
		r.keep("start time", r.ledger.SetLastStart(r.spec, r.facts.took))
	}
}

// lookForIdle notices when a drain on the way to an end holds nothing more.
func (r *replica) lookForIdle(drains bool) {
	if drains {
		r.drainTick.Reset(drainLook)
	} else {
		r.drainTick.Stop()
	}
}

// watched are the states in which a process is probed.
var watched = []supervisor.State{supervisor.Starting, supervisor.Warming, supervisor.Ready, supervisor.Suspect, supervisor.Draining}

func (r *replica) onReport(f report) {
	if f.generation != r.m.View().Generation || !r.m.Up() {
		return
	}
	if r.watch != nil {
		r.watch.hurry() // a dead engine is found out now, not in a second
	}
	if ev := r.failed.Observe(f.err, time.Now()); ev != nil && r.m.In(supervisor.Ready) {
		r.handle(ev)
	}
}
