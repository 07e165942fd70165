package supervisor

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// replica runs one machine: a single goroutine feeds it events, carries out its effects, and publishes copies of what
// is known. Everything that may wait (starting a process, probing, the memory gate) runs beside it and reports back
// through the inbox, so an order is never kept waiting.
type replica struct {
	spec    Spec
	opts    *Options
	memory  *memory
	dial    dialFunc
	log     *slog.Logger
	changed func() // tells the supervisor that a state changed

	inbox   chan delivery
	reports chan report
	ended   chan struct{} // closed when run has returned

	// Owned by run.
	m         *machine
	life      context.Context // of the tasks beside the loop
	tasks     sync.WaitGroup
	timer     *time.Timer
	number    uint64 // of the armed timer
	drainTick *time.Ticker
	stopGate  context.CancelFunc // nil = no gate is waited for
	watch     *watch             // nil = no process is watched
	proc      Process            // nil = none
	events    <-chan ProcessEvent
	out       *startLog
	failed    failureTracker
	baseline  uint64 // free GPU memory found before the last start, bytes
	starts    int
	cause     RestartCause // why the last process that ended will be followed by another
	restarts  RestartCounts
	progress  time.Time // when the machine last heard of progress
	facts     facts

	mu   sync.Mutex
	last Replica // what Snapshot returns
}

// facts are what is known of the present or last process beside the machine's own state.
type facts struct {
	pid     int
	exit    *Exit
	stats   EngineStats
	served  served
	version string
	took    time.Duration // last successful start of the model
	phases  []PhaseTime   // of this replica's own
}

// delivery is a message to the loop. reply tells whether the machine had a use for it.
type delivery struct {
	message any // an event of the machine or one of the messages below
	reply   chan bool
}

// Messages that carry more than an event of the machine.
type (
	launched struct {
		proc Process
		err  error
		perm bool // the command itself is wrong
	}
	found    struct{ proc Process } // a running engine to adopt
	gateDone struct {
		note string
		free uint64
	}
	statsRead struct {
		generation uint64
		stats      EngineStats
	}
	known struct {
		served  served
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

func newReplica(spec Spec, s *Supervisor) *replica {
	now := time.Now()
	r := &replica{
		spec: spec, opts: &s.opts, memory: s.memory, dial: s.dial, changed: s.poke,
		log:     s.opts.Log.With("replica", string(spec.ID), "model", spec.Model),
		inbox:   make(chan delivery),
		reports: make(chan report, 16),
		ended:   make(chan struct{}),
		m:       newMachine(s.opts.Timing, s.opts.Jitter, s.memory.generation(spec.ID), now),
		out:     newStartLog(now),
		facts:   facts{took: s.memory.lastStart(startKey(spec))},
	}
	r.m.silentFix = silentFix(spec)
	r.last = r.describe()
	return r
}

// silentFix is what may help a start that waits for something. Several GPUs that claim to reach each other over PCIe and
// do not are the classic: the first exchange between them never ends, and nothing is logged.
func silentFix(s Spec) string {
	fix := "look at the engine's log for what it waits for"
	if s.TP > 1 && s.Device == DeviceCUDA {
		fix += "; GPUs that do not reach each other over PCIe hang like this: set NCCL_P2P_DISABLE=1 in the configured environment"
	}
	return fix
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
			r.handle(fired{r.number})
		case <-r.drainTick.C:
			if r.opts.Work(r.spec.ID).Held == 0 {
				r.handle(idle{})
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
	case retry:
		if r.m.in(Backoff, Parked, Stopped) {
			r.takeBack()
		}
	case gateDone:
		r.stopGate = nil
		r.baseline = msg.free
		return r.handle(gate{note: msg.note})
	case statsRead:
		if msg.generation != r.m.generation || r.proc == nil {
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
func (r *replica) handle(ev event) (used bool) {
	before, ignored, lived := r.m.state, r.m.ignored, r.m.live
	effects := r.m.step(ev, time.Now())
	for _, e := range effects {
		r.perform(e)
	}
	if lived && !r.m.live {
		r.cause = r.m.restartCause()
	}
	moved := r.m.state != before
	if moved {
		r.entered()
	}
	if used = r.m.ignored == ignored; used {
		r.publish()
	}
	if moved { // told after it can be seen
		r.announce(before)
		r.changed()
	}
	return used
}

func (r *replica) perform(e effect) {
	switch e := e.(type) {
	case gateEffect:
		r.waitForGate()
	case spawnEffect:
		r.spawn(e.generation)
	case stopEffect:
		if r.proc != nil { // otherwise it is just being started, and the machine orders again
			r.proc.Stop(e.grace)
		}
	case killEffect:
		if r.proc != nil {
			r.proc.Kill()
		}
	case armEffect:
		r.number = e.number
		r.timer.Reset(e.after)
	case disarmEffect:
		r.timer.Stop()
	}
}

// entered keeps what runs beside the machine in line with its state.
func (r *replica) entered() {
	if r.m.state != WaitingGPU && r.stopGate != nil {
		r.stopGate()
		r.stopGate = nil
	}
	if r.watch != nil && !r.m.in(watched...) {
		r.watch.stop()
		r.watch = nil
	}
	if r.m.state == Draining && r.m.then != afterNothing {
		r.drainTick.Reset(drainLook)
	} else {
		r.drainTick.Stop()
	}
	if r.freshlyReady() && !r.m.adopted {
		r.facts.took = r.m.readyAt.Sub(r.m.startedAt)
		r.facts.phases = r.out.durations(r.m.readyAt)
		r.keep("start time", r.memory.setLastStart(startKey(r.spec), r.facts.took))
	}
}

// watched are the states in which a process is probed.
var watched = []State{Starting, Warming, Ready, Suspect, Draining}

// freshlyReady reports whether the present process has just become ready for the first time.
func (r *replica) freshlyReady() bool {
	return r.m.state == Ready && r.m.readyAt.Equal(r.m.since)
}

func (r *replica) spawn(generation uint64) {
	if r.starts++; r.starts > 1 {
		if r.m.streak == 0 { // no failure, or one that an order made forgotten
			r.cause = RestartOrder
		}
		r.restarts.add(r.cause)
	}
	r.out = newStartLog(time.Now())
	r.failed, r.progress = failureTracker{}, time.Time{}
	r.facts = facts{exit: r.facts.exit, took: r.facts.took, phases: r.facts.phases}
	r.keep("generation", r.memory.setGeneration(r.spec.ID, generation))
	r.tasks.Go(func() {
		msg := r.start(generation)
		if _, delivered := r.post(r.life, msg); !delivered && msg.proc != nil {
			msg.proc.Close()
		}
	})
}

func (r *replica) start(generation uint64) launched {
	spec, err := r.opts.Pin(r.life, r.spec)
	if err != nil {
		return launched{err: err}
	}
	command, err := spec.Engine.Command(spec)
	if err != nil {
		return launched{err: err, perm: true}
	}
	proc, err := r.opts.Launcher.Launch(r.life, launchOf(spec, command, generation))
	return launched{proc: proc, err: err}
}

func launchOf(s Spec, command Command, generation uint64) Launch {
	return Launch{
		ID: s.ID, Model: s.Model, Generation: generation, Command: command,
		CPUs: s.CPUs, Address: s.Address, GPUUUIDs: s.GPUUUIDs,
	}
}

// adopt looks for a running engine of an earlier warden.
func (r *replica) adopt(ctx context.Context) error {
	command, err := r.spec.Engine.Command(r.spec)
	if err != nil {
		return nil // the start will tell, in its place
	}
	proc, err := r.opts.Launcher.Adopt(ctx, launchOf(r.spec, command, 0))
	if err != nil {
		return err
	}
	if used, delivered := r.post(ctx, found{proc}); !delivered || !used {
		proc.Close()
	}
	return nil
}

func (r *replica) onLaunched(l launched) (used bool) {
	if l.err != nil {
		return r.handle(unborn{Diagnosis{Cause: l.err.Error(), Permanent: l.perm}})
	}
	r.take(l.proc)
	used = r.handle(spawned{l.proc.Info()})
	r.startWatch()
	return used
}

func (r *replica) onFound(proc Process) (used bool) {
	r.take(proc)
	if used = r.handle(adopted{proc.Info()}); !used {
		r.drop()
		return false
	}
	r.starts++
	r.startWatch()
	r.publish()
	return true
}

// take begins to listen to a process.
func (r *replica) take(proc Process) {
	r.proc, r.events = proc, proc.Events()
	r.facts.pid = proc.Info().PID
}

func (r *replica) drop() { r.proc, r.events, r.facts.pid = nil, nil, 0 }

func (r *replica) onReport(f report) {
	if f.generation != r.m.generation || !r.m.up() {
		return
	}
	if r.watch != nil {
		r.watch.hurry() // a dead engine is found out now, not in a second
	}
	if ev := r.failed.observe(f.err, time.Now()); ev != nil && r.m.in(Ready) {
		r.handle(ev)
	}
}
