package ladder

import (
	"time"

	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// engine is one replica: the scheduler core and the events that drive it.
type engine struct {
	sim        *sim
	id         placement.ReplicaID
	generation uint64
	cfg        core.Config
	core       *core.Scheduler
	alive      bool
	stepping   bool
	requests   map[core.ID]*request
	life       int // events of an earlier life are ignored

	turns       int    // finished here
	preemptions uint64 // of earlier lives
}

func (e *engine) start() error {
	c, err := core.New(e.cfg)
	if err != nil {
		return err
	}
	e.core, e.alive, e.stepping = c, true, false
	e.requests = map[core.ID]*request{}
	e.generation++
	e.life++
	return nil
}

// submit hands a request over; the scheduler sees it after the frontend.
func (e *engine) submit(r *request) {
	id := core.ID(r.in.ID)
	e.requests[id] = r
	e.here(e.cfg.Cost.Frontend, func() {
		if e.requests[id] != r {
			return
		}
		err := e.core.Add(core.Request{ID: id, Prompt: r.prompt, Answer: r.answer, Priority: r.priority}, e.sim.now)
		if err != nil {
			e.sim.fail(err)
			return
		}
		e.kick()
	})
}

// kick begins a step unless one is under way.
func (e *engine) kick() {
	if e.stepping || !e.alive {
		return
	}
	st := e.core.Step(e.sim.now)
	switch {
	case st.Computed > 0:
		e.stepping = true
		e.here(st.Took, func() {
			e.stepping = false
			e.deliver(st.Tokens)
			e.kick()
		})
	case !st.Wake.IsZero():
		e.here(st.Wake.Sub(e.sim.now), e.kick)
	}
}

func (e *engine) deliver(tokens []core.TokenEvent) {
	for _, tok := range tokens {
		r := e.requests[tok.ID]
		if r == nil {
			continue
		}
		if tok.Prefill != nil {
			r.prefill = *tok.Prefill
			e.sim.firstToken(r)
		}
		if tok.Reason != core.Unfinished {
			delete(e.requests, tok.ID)
			e.turns++
			e.sim.finished(r)
		}
	}
}

// here schedules f unless the process has ended by then.
func (e *engine) here(after time.Duration, f func()) {
	life := e.life
	e.sim.after(after, func() {
		if e.life == life && e.alive {
			f()
		}
	})
}

// kill ends the process; its requests are lost.
func (e *engine) kill() {
	e.alive = false
	e.preemptions += e.core.Stats().Preemptions
	lost := e.requests
	e.requests = nil
	e.sim.tellReplicas()
	for _, id := range sortedIDs(lost) {
		e.sim.lost(lost[id])
	}
}

func (e *engine) describe() placement.Replica {
	cfg := e.core.Config()
	return placement.Replica{
		ID: e.id, Generation: e.generation, Accepting: e.alive,
		MaxNumSeqs: cfg.MaxNumSeqs, KVCapacityTokens: cfg.Capacity(), HostKVTokens: cfg.Host.Tokens,
	}
}

func (e *engine) view(now time.Time) placement.EngineView {
	return viewOf(e.core.Stats(), e.core.Config().Capacity(), now)
}

// viewOf is what a scrape of an engine brings.
func viewOf(s core.Stats, capacity int, now time.Time) placement.EngineView {
	return placement.EngineView{
		At: now, Running: s.Running, Waiting: s.Waiting, KVUsed: s.KVUsed,
		KVCapacityTokens: capacity, Preemptions: s.Preemptions,
	}
}
