package server

import (
	"context"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/fault"
	"github.com/lm-warden/warden/supervisor/simengine/metrics"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server/api"
	"github.com/lm-warden/warden/supervisor/simengine/server/wire"
)

// engine drives the scheduler in real (or virtual) time. Its run loop is the
// only one that steps; handlers add and abort requests under the lock.
type engine struct {
	config  core.Config
	faults  *fault.Set
	metrics *metrics.Recorder
	wake    chan struct{} // capacity 1: there may be something to do

	mu        sync.Mutex
	scheduler *core.Scheduler
	live      map[core.ID]*choice
	nextID    core.ID
	dead      bool
	draining  bool
	emptied   chan struct{} // closed when nothing is in flight; set while draining
	last      core.Stats    // as of the last step: gauges stand still when nothing moves
}

func newEngine(s *core.Scheduler, f *fault.Set, m *metrics.Recorder) *engine {
	return &engine{
		config: s.Config(), faults: f, metrics: m, scheduler: s,
		wake: make(chan struct{}, 1),
		live: make(map[core.ID]*choice),
		last: s.Stats(),
	}
}

// Run steps the engine until ctx ends; requests still in flight then fail as
// they do when EngineCore dies.
func (s *Server) Run(ctx context.Context) error {
	s.engine.run(ctx)
	s.engine.kill()
	return ctx.Err()
}

func (e *engine) run(ctx context.Context) {
	due := time.Now()
	for e.faults.EngineMay(ctx) {
		// A step begins when the last one ended, not when this goroutine woke up:
		// the delays of timers must not add up.
		now := time.Now()
		if lag := now.Sub(due); lag < 0 || lag > maxLag {
			due = now
		}
		st := e.step(due)
		if st.Computed == 0 {
			if !e.idle(ctx, st.Wake) {
				return
			}
			due = time.Now()
			continue
		}
		due = due.Add(e.faults.Slower(st.Took))
		if !fault.Sleep(ctx, time.Until(due)) || !e.faults.EngineMay(ctx) {
			return
		}
		e.deliver(st)
	}
}

// maxLag is the delay up to which the loop catches up instead of starting
// afresh; well above a timer's own inaccuracy.
const maxLag = 50 * time.Millisecond

func (e *engine) step(now time.Time) core.Step {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return core.Step{}
	}
	st := e.scheduler.Step(now)
	if st.Computed == 0 {
		e.last = e.scheduler.Stats()
		e.metrics.State(e.last)
	}
	return st
}

// idle waits until a request arrives or leaves, or until a load from the host
// tier ends.
func (e *engine) idle(ctx context.Context, until time.Time) bool {
	var loaded <-chan time.Time
	if !until.IsZero() {
		timer := time.NewTimer(time.Until(until))
		defer timer.Stop()
		loaded = timer.C
	}
	select {
	case <-e.wake:
		return true
	case <-loaded:
		return true
	case <-ctx.Done():
		return false
	}
}

// deliver hands a finished step's tokens to their requests.
func (e *engine) deliver(st core.Step) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return
	}
	e.last = e.scheduler.Stats()
	e.metrics.State(e.last)
	e.metrics.Step(st)
	now := time.Now()
	for _, ev := range st.Tokens {
		c, ok := e.live[ev.ID]
		if !ok {
			continue // aborted while the step lasted
		}
		e.metrics.Token(&c.counted, ev, now)
		if ev.Reason != core.Unfinished {
			e.forget(ev.ID)
		}
		c.generation.push(update{choice: c.index, event: ev}, ev.Reason != core.Unfinished)
	}
}

func (e *engine) stats() core.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.last
}

func (e *engine) isDead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.dead
}

// inFlight is the number of requests that the scheduler holds right now.
func (e *engine) inFlight() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.live)
}

// forget removes a request that has ended, under the lock.
func (e *engine) forget(id core.ID) {
	delete(e.live, id)
	if e.draining && len(e.live) == 0 {
		close(e.emptied)
	}
}

func (e *engine) drain(ctx context.Context) {
	e.mu.Lock()
	if !e.draining {
		e.draining, e.emptied = true, make(chan struct{})
		if len(e.live) == 0 {
			close(e.emptied)
		}
	}
	emptied := e.emptied
	e.mu.Unlock()
	select {
	case <-emptied:
	case <-ctx.Done():
	}
}

func (e *engine) kill() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.dead = true
	for id, c := range e.live {
		e.forget(id)
		c.generation.fail(wire.EngineDead())
	}
}

// submit queues the answers of one task; they share its prompt.
func (e *engine) submit(t task, answers []prompt.Answer) (*generation, *wire.Error) {
	g := &generation{
		engine: e, open: len(answers), notify: make(chan struct{}, 1),
		answer: api.NewAnswer(len(t.Prompt), t.limit, answers),
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead || e.draining {
		return nil, wire.EngineDead()
	}
	now := time.Now()
	for i, answer := range answers {
		e.nextID++
		c := &choice{
			id: e.nextID, index: i, generation: g,
			counted: metrics.Request{Samples: len(answers), MaxTokens: t.limit, Queued: now},
		}
		err := e.scheduler.Add(core.Request{
			ID: c.id, Prompt: t.Prompt, Answer: answer.Tokens, Endless: answer.Endless,
			MaxTokens: t.limit, Priority: t.priority, Salt: t.CacheSalt,
		}, now)
		if err != nil {
			return nil, wire.BadRequest("", "%v", err) // only the first can fail, so nothing is left behind
		}
		g.choices = append(g.choices, c)
		e.live[c.id] = c
	}
	e.signal()
	return g, nil
}

func (e *engine) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *engine) abort(choices []*choice) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range choices {
		if _, ok := e.live[c.id]; ok {
			e.forget(c.id)
			e.scheduler.Abort(c.id)
			e.metrics.Aborted()
		}
	}
	e.signal() // the gauges must follow
}

// choice is one answer on its way.
type choice struct {
	id         core.ID
	index      int
	generation *generation
	counted    metrics.Request
}

// update is one token of one choice.
type update struct {
	choice int
	event  core.TokenEvent
}

// generation is a client's request in the engine: one or several choices.
type generation struct {
	engine  *engine
	answer  *api.Answer // as far as follow has taken it in
	choices []*choice
	notify  chan struct{} // capacity 1

	mu      sync.Mutex
	pending []update
	open    int // choices that have not finished
	failure *wire.Error
}

func (g *generation) push(u update, last bool) {
	g.mu.Lock()
	g.pending = append(g.pending, u)
	if last {
		g.open--
	}
	g.mu.Unlock()
	g.ring()
}

func (g *generation) fail(err *wire.Error) {
	g.mu.Lock()
	g.failure = err
	g.mu.Unlock()
	g.ring()
}

func (g *generation) ring() {
	select {
	case g.notify <- struct{}{}:
	default:
	}
}

// follow takes the tokens into the answer as they come and hands each, with
// what becomes visible with it, to each. It returns nil when the answer is
// complete, a *wire.Error when the engine failed, errGone when the client has
// left, or each's own error.
func (g *generation) follow(ctx context.Context, each func(choice int, pieces []prompt.Piece) error) error {
	for {
		updates, err := g.next(ctx)
		if err != nil || len(updates) == 0 {
			return err
		}
		for _, u := range updates {
			pieces := g.answer.Choices[u.choice].Take(u.event)
			if err := each(u.choice, pieces); err != nil {
				return err
			}
		}
	}
}

// finish waits for the whole answer.
func (g *generation) finish(ctx context.Context) error {
	return g.follow(ctx, func(int, []prompt.Piece) error { return nil })
}

// next returns the tokens that have come since the last call, several at once
// for a slow reader, and none after the last.
func (g *generation) next(ctx context.Context) ([]update, error) {
	for {
		g.mu.Lock()
		ready, open, failure := g.pending, g.open, g.failure
		g.pending = nil
		g.mu.Unlock()
		switch {
		case len(ready) > 0:
			return ready, nil
		case failure != nil:
			return nil, failure
		case open == 0:
			return nil, nil
		}
		select {
		case <-g.notify:
		case <-ctx.Done():
			return nil, errGone
		}
	}
}

// close aborts what has not finished.
func (g *generation) close() { g.engine.abort(g.choices) }
