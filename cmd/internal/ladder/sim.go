package ladder

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// Policy is what is compared: placement.Placer, or another system's rule in the
// same form.
type Policy interface {
	Step(placement.Event, time.Time) []placement.Action
}

// Fleet is the engines of a run.
type Fleet struct {
	// Engines holds one configuration per replica.
	Engines []core.Config
	// DieAt kills replica 0 at that time of the run, DownFor long. 0: never.
	DieAt, DownFor time.Duration
}

// Run is one cell: a policy under a load on a fleet.
type Run struct {
	Work   Workload
	Fleet  Fleet
	Seed   uint64
	Warmup time.Duration // not measured
	Length time.Duration // measured
}

// request is one turn on its way.
type request struct {
	conv   *conversation
	in     placement.Turn
	turn   int
	prompt []core.Token
	answer []core.Token

	began      time.Time // the user wanted it
	arrived    time.Time // at the router
	dispatched time.Time
	first      time.Time
	engine     *engine
	reason     placement.Reason
	rehomed    bool
	prefill    core.Prefill
	priority   int // inside engines that order by it
}

type sim struct {
	Run
	work   Workload
	seed   uint64
	policy Policy
	now    time.Time
	events eventHeap
	serial uint64

	engines []*engine
	byID    map[placement.ReplicaID]*engine
	pending map[uint64]*request // arrived and not ended, by turn id
	turnIDs uint64
	keys    uint64
	drawn   int // scripts
	wake    time.Time

	log log
	err error
}

// statsEvery is how often engine figures are scraped. vLLM's own coordinator
// publishes every 100 ms; warden and other routers poll slower and are given
// the advantage.
const statsEvery = 100 * time.Millisecond

// Play runs one cell.
func Play(r Run, p Policy) (Result, error) {
	s := &sim{
		Run: r, work: r.Work, seed: r.Seed, policy: p, now: time.Unix(0, 0).UTC(),
		byID: map[placement.ReplicaID]*engine{}, pending: map[uint64]*request{},
	}
	for i, cfg := range r.Fleet.Engines {
		e := &engine{sim: s, id: placement.ReplicaID(fmt.Sprintf("r%d", i)), cfg: cfg}
		if err := e.start(); err != nil {
			return Result{}, err
		}
		s.engines = append(s.engines, e)
		s.byID[e.id] = e
	}
	s.log.from, s.log.to = s.now.Add(r.Warmup), s.now.Add(r.Warmup+r.Length)
	s.tellReplicas()
	s.scrape()
	s.startClients()
	s.planDeath()
	for len(s.events) > 0 && s.err == nil && s.events[0].at.Before(s.log.to) {
		ev := heap.Pop(&s.events).(event)
		s.now = ev.at
		ev.do()
	}
	s.now = s.log.to
	return s.result(), s.err
}

func (s *sim) startClients() {
	rng := rand.New(rand.NewPCG(s.seed, 99))
	for i := range s.work.Sessions {
		c := &client{sim: s, slot: i, rerun: true}
		s.after(time.Duration(rng.Int64N(int64(time.Second))), c.start)
	}
	if s.work.Rate > 0 {
		mean := time.Duration(float64(time.Second) / s.work.Rate)
		n := 0
		var begin func()
		begin = func() {
			(&client{sim: s, slot: n}).start()
			n++
			s.after(exponential(rng, mean), begin)
		}
		s.after(exponential(rng, mean), begin)
	}
}

func (s *sim) planDeath() {
	if s.Fleet.DieAt == 0 {
		return
	}
	victim := s.engines[0]
	s.after(s.Fleet.DieAt, func() {
		victim.kill()
		s.after(s.Fleet.DownFor, func() {
			s.err = victim.start()
			s.tellReplicas()
		})
	})
}

// arrive hands a turn to the policy.
func (s *sim) arrive(r *request) {
	s.turnIDs++
	r.in.ID = s.turnIDs
	r.in.Arrived = s.now
	r.arrived = s.now
	s.pending[r.in.ID] = r
	s.step(placement.Arrive{Turn: r.in})
}

// step tells the policy and does what it says.
func (s *sim) step(ev placement.Event) {
	for _, a := range s.policy.Step(ev, s.now) {
		switch a := a.(type) {
		case placement.Dispatch:
			s.dispatch(a)
		case placement.Reject:
			r := s.pending[a.TurnID]
			delete(s.pending, a.TurnID)
			s.log.rejected++
			r.conv.refused(r, a.RetryAfter)
		case placement.WakeAt:
			s.wake = a.At
			s.after(a.At.Sub(s.now), func() {
				if s.wake.Equal(a.At) {
					s.step(placement.Tick{})
				}
			})
		}
	}
}

func (s *sim) dispatch(d placement.Dispatch) {
	r, e := s.pending[d.TurnID], s.byID[d.Replica]
	if r == nil || e == nil || !e.alive {
		s.fail(fmt.Errorf("turn %d was sent to %q, which is not there", d.TurnID, d.Replica))
		return
	}
	r.engine, r.dispatched, r.reason, r.rehomed = e, s.now, d.Reason, d.Rehomed
	r.priority = router.EnginePriority(r.arrived.Sub(time.Unix(0, 0)), d.ExpectedUncached)
	e.submit(r)
}

func (s *sim) firstToken(r *request) {
	if r.first.IsZero() { // a preempted request has its first token only once
		r.first = s.now
		s.step(placement.FirstByte{TurnID: r.in.ID})
	}
}

func (s *sim) finished(r *request) {
	delete(s.pending, r.in.ID)
	s.step(placement.Finish{TurnID: r.in.ID, Outcome: placement.Outcome{
		PromptTokens: len(r.prompt), OutputTokens: len(r.answer),
		CachedTokens: r.prefill.Cached(), FinishClass: "stop",
	}})
	s.log.turn(r.record(s.now), s.now)
	r.conv.answered(r)
}

// lost takes a request whose engine died: before its first token the policy is
// asked again, after it the client sees the break and sends the turn anew.
func (s *sim) lost(r *request) {
	if r.first.IsZero() {
		s.step(placement.Retry{TurnID: r.in.ID, Failed: r.engine.id})
		return
	}
	delete(s.pending, r.in.ID)
	s.step(placement.Finish{TurnID: r.in.ID, Outcome: placement.Outcome{CachedTokens: -1, Failed: true}})
	s.log.broken++
	r.conv.refused(r, 0)
}

func (s *sim) tellReplicas() {
	set := make([]placement.Replica, 0, len(s.engines))
	for _, e := range s.engines {
		set = append(set, e.describe())
	}
	s.step(placement.Replicas{Replicas: set})
}

func (s *sim) scrape() {
	for _, e := range s.engines {
		if e.alive {
			s.step(placement.Stats{Replica: e.id, Engine: e.view(s.now)})
		}
	}
	s.after(statsEvery, s.scrape)
}

func (s *sim) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// event is something to do at a time; equal times keep their order.
type event struct {
	at     time.Time
	serial uint64
	do     func()
}

func (s *sim) after(d time.Duration, do func()) {
	s.serial++
	heap.Push(&s.events, event{s.now.Add(max(d, 0)), s.serial, do})
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].serial < h[j].serial
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*h = old[:len(old)-1]
	return x
}

func sortedIDs(m map[core.ID]*request) []core.ID {
	ids := make([]core.ID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
