package keep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/internal/span"
	"github.com/lm-warden/warden/supervisor/machine"
	"github.com/lm-warden/warden/supervisor/probe"
)

// warmLimit is how many refused or failed first requests in a row fail a start.
const warmLimit = 5

// watch probes one engine process for as long as it runs: attend asks how it is, measure reads its counters.
type watch struct {
	r          *replica
	generation uint64
	prober     *probe.Prober
	ctx        context.Context
	stop       context.CancelFunc
	soon       chan struct{}

	// Of first requests, in a row; used by attend alone.
	failures    int
	failedSince time.Time
}

// startWatch watches the process, unless an order to end it came while it was being started.
func (r *replica) startWatch() {
	if !r.m.In(watched...) {
		return
	}
	p, err := probe.New(r.spec.Address, r.dial)
	if err != nil {
		panic(err) // New has checked the address
	}
	ctx, cancel := context.WithCancel(r.life)
	w := &watch{r: r, generation: r.m.View().Generation, prober: p, ctx: ctx, stop: cancel, soon: make(chan struct{}, 1)}
	r.watch = w
	r.tasks.Go(func() {
		defer p.Close()
		w.attend()
	})
	r.tasks.Go(w.measure)
}

// hurry asks for a probe now.
func (w *watch) hurry() {
	select {
	case w.soon <- struct{}{}:
	default:
	}
}

// tell posts an event of this process, unless it is no longer watched.
func (w *watch) tell(ev machine.Event) { w.r.post(w.ctx, ev) }

// attend asks for /health until it is good, then checks that the engine really works, then keeps asking.
func (w *watch) attend() {
	t := w.r.opts.Timing
	var tracker probe.HealthTracker
	pause := time.NewTimer(0) // the first probe comes at once: an adopted engine may be ready
	defer pause.Stop()
	for {
		select {
		case <-w.ctx.Done():
			return
		case <-pause.C:
		case <-w.soon:
		}
		next, asked := t.ProbeReady, time.Now()
		switch now := w.r.snapshot(); {
		case now.State == supervisor.Starting:
			if w.prober.Health(w.ctx, t.ProbeSlow).Good() {
				w.tell(machine.Answers{})
				next = 0
			} else {
				next = t.ProbeStarting
			}
		case now.State == supervisor.Warming || (now.State == supervisor.Suspect && now.ReadyAt.IsZero()):
			w.warmUp(now.Adopted)
		default:
			w.judge(&tracker, now.State)
			next = max(0, next-time.Since(asked)) // a slow answer has been waited for already
		}
		pause.Reset(next)
	}
}

// warmUp checks what readiness means beyond /health: the served name and one real answer. A new engine that is up and
// refuses several times will not do better later; an adopted one may be in a stall, which restarts nothing.
func (w *watch) warmUp(adopted bool) {
	t := w.r.opts.Timing
	if h := w.prober.Health(w.ctx, t.ProbeSlow); h.Dead() {
		w.tell(machine.Dead{Why: "the engine reports that its core is dead"})
		return
	}
	err := w.tryFirst()
	if err == nil {
		w.tell(machine.Warm{})
		return
	}
	if w.ctx.Err() != nil || probe.Refused(err) || probe.Own(err) { // an adopted engine may still be loading; a start has its own time limit
		return
	}
	now := time.Now()
	if w.failures++; w.failures == 1 {
		w.failedSince = now
	}
	w.r.log.Warn("first request failed", "attempt", w.failures, "err", err)
	if w.failures >= warmLimit && (!adopted || now.Sub(w.failedSince) >= t.StallAfter) {
		w.tell(machine.Cold{Why: fmt.Sprintf("the engine is up but does not work: %v", err)})
	}
}

func (w *watch) tryFirst() error {
	t := w.r.opts.Timing
	short, cancel := context.WithTimeout(w.ctx, t.ProbeTimeout)
	defer cancel()
	name := w.name()
	s, err := w.prober.Models(short, name)
	if err != nil {
		return err
	}
	version := w.prober.Version(short)
	long, cancelLong := context.WithTimeout(w.ctx, t.WarmTimeout)
	defer cancelLong()
	if err := w.prober.Ask(long, name); err != nil {
		return err
	}
	w.tell(known{served: s, version: version})
	_, err = w.read(supervisor.EngineStats{}) // the cache's size is known before the first request is placed
	return err
}

// name is what the engine must answer to.
func (w *watch) name() string {
	if len(w.r.spec.ServedNames) > 0 {
		return w.r.spec.ServedNames[0]
	}
	return w.r.spec.Model
}

// judge passes on what the tracker makes of one more answer, where the machine has a use for it.
func (w *watch) judge(tracker *probe.HealthTracker, s supervisor.State) {
	asked := time.Now()
	result := w.prober.Health(w.ctx, w.r.opts.Timing.ProbeSlow)
	if w.ctx.Err() != nil {
		return
	}
	work := w.r.opts.Work(w.r.spec.ID)
	ev := tracker.Observe(result, work.Held > 0 && work.LastByte.Before(asked))
	if ev == nil {
		return
	}
	if _, well := ev.(machine.Healthy); well && s == supervisor.Ready {
		return // nothing new
	}
	w.tell(ev)
}

// measure reads the engine's counters and finds out when it hangs.
func (w *watch) measure() {
	t := w.r.opts.Timing
	tick := time.NewTicker(t.ProbeReady)
	defer tick.Stop()
	var (
		stall  probe.StallTracker
		canary chan error // nil = none is on its way
		stats  supervisor.EngineStats
		blind  bool // the last reading failed
	)
	for {
		select {
		case <-w.ctx.Done():
			return
		case err := <-canary:
			canary = nil
			if err == nil {
				stall.Answered(time.Now())
				continue
			}
			if still := w.stalled(&stall, stats); still >= t.StallAfter && w.ctx.Err() == nil {
				w.tell(machine.Hung{Why: fmt.Sprintf("hangs: no progress for %s and a test request unanswered for %s",
					span.Text(still.Round(time.Second)), span.Text(t.Canary))})
			}
		case <-tick.C:
			if now := w.r.snapshot(); now.ReadyAt.IsZero() {
				continue // a start has rules of its own
			}
			var err error
			if stats, err = w.read(stats); (err != nil) != blind {
				blind = !blind
				w.r.log.Info("engine metrics", "readable", !blind, "err", err)
			}
			if w.stalled(&stall, stats) >= t.StallAfter && canary == nil {
				canary = w.sendCanary()
			}
		}
	}
}

// read returns the engine's counters, or the old ones when it does not give them: their age tells.
func (w *watch) read(old supervisor.EngineStats) (supervisor.EngineStats, error) {
	ctx, cancel := context.WithTimeout(w.ctx, w.r.opts.Timing.ProbeTimeout)
	defer cancel()
	stats, text, err := w.prober.Metrics(ctx, w.r.spec.Engine)
	if err != nil {
		return old, err
	}
	w.r.opts.Scraped(w.r.spec.ID, w.generation, stats.At, text)
	w.r.post(w.ctx, statsRead{generation: w.generation, stats: stats})
	return stats, nil
}

func (w *watch) stalled(s *probe.StallTracker, stats supervisor.EngineStats) time.Duration {
	owes := w.r.snapshot().State == supervisor.Suspect // it owes an answer to /health at least
	return s.Observe(w.r.opts.Work(w.r.spec.ID), stats, owes, time.Now())
}

// sendCanary asks for one token. The channel gets nil when any answer came in time.
func (w *watch) sendCanary() chan error {
	result := make(chan error, 1)
	w.r.log.Warn("no progress while work is held; sending a test request")
	w.r.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(w.ctx, w.r.opts.Timing.Canary)
		defer cancel()
		err := w.prober.Ask(ctx, w.name())
		if !errors.Is(err, context.DeadlineExceeded) && w.ctx.Err() == nil {
			err = nil // refused, or answered with an error: not a hang, and /health tells the rest
		}
		result <- err
	})
	return result
}
