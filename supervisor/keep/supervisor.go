package keep

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/ledger"
	"github.com/lm-warden/warden/supervisor/machine"
	"github.com/lm-warden/warden/supervisor/probe"
)

// Supervisor keeps one engine per Spec alive.
type Supervisor struct {
	opts     Options
	ledger   *ledger.Ledger
	dial     probe.Dial // nil = the network; tests replace it before Run
	replicas []*replica

	ran     sync.Once
	running chan struct{} // closed when Run has begun
	wake    chan struct{}

	mu      sync.Mutex
	closing bool // shutdown was ordered: nothing starts any more
	early   bool // closing was ordered before Run
	detach  bool // Run leaves the engines running
}

// Errors that a caller may want to tell apart.
var (
	ErrUnknownReplica = errors.New("no such replica")
	ErrNotRunning     = errors.New("the supervisor is not running")
	ErrNotNow         = errors.New("not possible in its present state")
	ErrHeld           = errors.New("no engine can start now")
)

// New checks the specs and returns a Supervisor that has not started anything.
func New(specs []supervisor.Spec, o Options) (*Supervisor, error) {
	if o.Launcher == nil {
		return nil, errors.New("supervisor: Options.Launcher is missing")
	}
	s := &Supervisor{
		opts:    o.withDefaults(),
		running: make(chan struct{}),
		wake:    make(chan struct{}, 1),
	}
	var err error
	if s.ledger, err = ledger.Open(o.StateDir, o.BootID); err != nil {
		s.opts.Log.Warn("nothing is known of earlier runs", "err", err)
	}
	seen := map[supervisor.ReplicaID]bool{}
	for _, spec := range specs {
		if spec.ID == "" || seen[spec.ID] {
			return nil, fmt.Errorf("replica id %q is empty or used twice", spec.ID)
		}
		if spec.Engine == nil {
			return nil, fmt.Errorf("replica %s: Engine is missing", spec.ID)
		}
		if _, err := probe.New(spec.Address, nil); err != nil {
			return nil, fmt.Errorf("replica %s: %w", spec.ID, err)
		}
		seen[spec.ID] = true
		s.replicas = append(s.replicas, newReplica(spec, s))
	}
	return s, nil
}

// Run adopts what still runs, starts the rest, and keeps it all up. It returns after the last engine's last process
// has ended: when Shutdown has done its work, or after ctx has ended, which stops the engines without a drain.
// It returns at once, and leaves the engines running, after Detach. An error names replicas whose processes could not
// be ended. Run may be called once.
func (s *Supervisor) Run(ctx context.Context) error {
	err := errors.New("supervisor: Run was called twice")
	s.ran.Do(func() { err = s.run(ctx) })
	return err
}

func (s *Supervisor) run(ctx context.Context) error {
	// The replicas outlive ctx: they have to see their engines out.
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var loops sync.WaitGroup
	defer func() {
		cancel()
		loops.Wait()
	}()
	for _, r := range s.replicas {
		r.publish()
		loops.Go(func() { r.run(life) })
	}
	close(s.running)
	var adopting sync.WaitGroup
	for _, r := range s.replicas {
		adopting.Go(func() {
			if err := r.adopt(life); err != nil && !errors.Is(err, supervisor.ErrNothingToAdopt) {
				r.log.Error("what an earlier run left could not be ended", "err", err)
			}
		})
	}
	searched := make(chan struct{})
	go func() {
		adopting.Wait()
		close(searched)
	}()
	defer func() {
		cancel()
		<-searched
	}()
	return s.conduct(ctx, life, searched)
}

// conduct starts replicas when their turn comes, and returns when all is over.
func (s *Supervisor) conduct(ctx, life context.Context, searched <-chan struct{}) error {
	turns := turns{parallel: s.opts.ParallelStart}
	done, known := ctx.Done(), false
	for {
		closing, detach := s.wishes()
		switch {
		case detach:
			return nil
		case closing && known && s.atRest():
			return s.stuckError()
		case closing: // also what was ordered before Run
			s.stopPending()
		case known:
			for _, o := range turns.next(s.Snapshot()) {
				s.replica(o.id).post(life, o.event)
			}
		}
		select {
		case <-done:
			done = nil
			s.Shutdown(0)
		case <-searched:
			searched, known = nil, true
		case <-s.wake:
		}
	}
}

func (s *Supervisor) wishes() (closing, detach bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing, s.detach
}

// poke makes conduct look again.
func (s *Supervisor) poke() {
	select {
	case s.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// stopPending stops the replicas that no order has reached: those that wait, and, when the order came before Run, also
// those whose engine was found meanwhile.
func (s *Supervisor) stopPending() {
	s.mu.Lock()
	early := s.early
	s.mu.Unlock()
	for _, r := range s.replicas {
		switch state := r.snapshot().State; state {
		case supervisor.Stopped, supervisor.Stopping, supervisor.Stuck:
		default:
			if early || state == supervisor.Pending {
				r.post(context.Background(), machine.Stop{})
			}
		}
	}
}

func (s *Supervisor) atRest() bool {
	return !slices.ContainsFunc(s.replicas, func(r *replica) bool {
		state := r.snapshot().State
		return state != supervisor.Stopped && state != supervisor.Stuck
	})
}

func (s *Supervisor) stuckError() error {
	var errs []error
	for _, r := range s.replicas {
		if now := r.snapshot(); now.State == supervisor.Stuck {
			errs = append(errs, fmt.Errorf("replica %s: %s", now.ID, now.Note))
		}
	}
	return errors.Join(errs...)
}

// Snapshot returns what is known of every replica, in the order of New.
func (s *Supervisor) Snapshot() []supervisor.Replica {
	out := make([]supervisor.Replica, len(s.replicas))
	for i, r := range s.replicas {
		out[i] = r.snapshot()
	}
	return out
}

func (s *Supervisor) replica(id supervisor.ReplicaID) *replica {
	for _, r := range s.replicas {
		if r.spec.ID == id {
			return r
		}
	}
	return nil
}

// order hands an order to a replica and tells whether it took it.
func (s *Supervisor) order(id supervisor.ReplicaID, name string, ev machine.Event) error {
	r := s.replica(id)
	if r == nil {
		return fmt.Errorf("replica %q: %w", id, ErrUnknownReplica)
	}
	select {
	case <-s.running:
	default:
		return ErrNotRunning
	}
	used, delivered := r.post(context.Background(), ev)
	switch {
	case !delivered:
		return ErrNotRunning
	case !used:
		return fmt.Errorf("cannot %s replica %s, it is %s: %w", name, id, r.snapshot().State, ErrNotNow)
	}
	return nil
}

// Restart gives the replica a new engine process. It first finishes what it holds, for at most drain; 0 = at once.
// A replica that is parked, stopped or in back-off starts now, and its failures are forgotten. One that serves is left
// alone while no engine can start: it could not come back.
func (s *Supervisor) Restart(id supervisor.ReplicaID, drain time.Duration) error {
	if r := s.replica(id); r != nil && r.snapshot().State.Serving() {
		ctx, cancel := context.WithTimeout(context.Background(), holdPatience)
		defer cancel()
		if why := s.opts.Hold(ctx, r.spec.GPUUUIDs); why != "" {
			return fmt.Errorf("replica %s is left as it is: %w: %s", id, ErrHeld, why)
		}
	}
	return s.order(id, "restart", machine.Restart{Drain: drain})
}

// holdPatience is how long an order waits to hear whether engines can start.
const holdPatience = 5 * time.Second

// Drain takes the replica out of service without stopping its engine, until Undrain, Restart, Retry or Shutdown; also
// when its engine fails meanwhile and comes back.
func (s *Supervisor) Drain(id supervisor.ReplicaID) error {
	return s.order(id, "drain", machine.Drain{})
}

// Undrain ends a drain.
func (s *Supervisor) Undrain(id supervisor.ReplicaID) error {
	return s.order(id, "undrain", machine.Undrain{})
}

// Kill ends the replica's processes with SIGKILL. Unless it was being stopped, it then starts anew.
func (s *Supervisor) Kill(id supervisor.ReplicaID) error { return s.order(id, "kill", machine.Kill{}) }

// Retry starts a replica that is parked, stopped or in back-off, and forgets its failures, also that its GPU was set
// aside.
func (s *Supervisor) Retry(id supervisor.ReplicaID) error {
	return s.order(id, "retry", machine.Retry{})
}

// Stop ends the replica's engine and keeps it down until Retry or Restart.
func (s *Supervisor) Stop(id supervisor.ReplicaID, drain time.Duration) error {
	return s.order(id, "stop", machine.Stop{Drain: drain})
}

// Shutdown stops all replicas; each first finishes what it holds, for at most drain. Run returns when all are gone.
// Another call replaces the time left.
func (s *Supervisor) Shutdown(drain time.Duration) {
	s.mu.Lock()
	s.closing = true
	select {
	case <-s.running:
	default:
		s.early = true // nobody listens yet; conduct sees to it
	}
	s.mu.Unlock()
	s.all(machine.Stop{Drain: drain})
	s.poke()
}

// KillAll is Shutdown without any patience: SIGKILL to every process.
func (s *Supervisor) KillAll() {
	s.Shutdown(0)
	s.all(machine.Kill{})
}

// all gives every replica an order; one that has no use for it is already where it leads to.
func (s *Supervisor) all(ev machine.Event) {
	select {
	case <-s.running:
	default:
		return
	}
	for _, r := range s.replicas {
		r.post(context.Background(), ev)
	}
}

// Running is closed once Run takes orders.
func (s *Supervisor) Running() <-chan struct{} { return s.running }

// Detach makes Run return and leaves the engines running, for a new warden to adopt.
func (s *Supervisor) Detach() {
	s.mu.Lock()
	s.detach = true
	s.mu.Unlock()
	s.poke()
}

// ReportFailure tells that a request failed on its way to or from a replica, in the generation that the caller had
// placed it on. Answers with an HTTP status, whichever, are no failures of the way. It never blocks.
func (s *Supervisor) ReportFailure(id supervisor.ReplicaID, generation uint64, err error) {
	r := s.replica(id)
	if r == nil {
		return
	}
	select {
	case r.reports <- report{generation, err}:
	default: // enough of them are waiting to draw the same conclusion
	}
}

// Logs yields lines of a replica's log, oldest first, of running and of ended engines.
func (s *Supervisor) Logs(ctx context.Context, id supervisor.ReplicaID, q supervisor.LogQuery) iter.Seq2[supervisor.LogLine, error] {
	if s.replica(id) == nil {
		return func(yield func(supervisor.LogLine, error) bool) {
			yield(supervisor.LogLine{}, fmt.Errorf("replica %q: %w", id, ErrUnknownReplica))
		}
	}
	return s.opts.Launcher.Logs(ctx, id, q)
}
