package core

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Scheduler is one replica's engine core. It is not safe for concurrent use;
// its driver owns it.
type Scheduler struct {
	cfg       Config
	pool      *pool
	host      *tier
	hash      *hasher
	watermark int // blocks

	requests map[ID]*request
	waiting  []*request // in the order in which they are looked at
	loading  []*request // waiting for the host tier, holding blocks
	running  []*request // in admission order
	arrivals uint64
	counters Counters
}

// Counters only grow. They count what vLLM's metrics of the same meaning count.
type Counters struct {
	PrefixQueries, PrefixHits uint64 // tokens, at first admission only
	HostQueries, HostHits     uint64 // tokens, at first admission only
	Preemptions               uint64
	Steps                     uint64 // all steps, also those that emitted nothing
}

// New returns an empty engine.
func New(cfg Config) (*Scheduler, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Scheduler{
		cfg:       cfg,
		pool:      newPool(cfg.Blocks-1, !cfg.NoPrefixCache),
		host:      newTier(cfg.Host, cfg.BlockSize),
		hash:      newHasher(cfg.BlockSize),
		watermark: int(cfg.Watermark * float64(cfg.Blocks)),
		requests:  make(map[ID]*request),
	}, nil
}

// Config returns the configuration with all defaults filled in.
func (s *Scheduler) Config() Config { return s.cfg }

type phase int

const (
	waiting phase = iota
	preempted
	loading // its prefix is on the way from the host tier
	loaded  // the prefix is there; the request waits for its turn
	running
)

// request is a Request on its way through the engine.
type request struct {
	Request
	arrival uint64 // rank; ties of equal priorities go to the earlier
	phase   phase
	emitted int // tokens of Answer sent so far; they are part of the sequence
	limit   int // tokens of Answer that may be sent

	hashes     []uint64 // of the sequence's full blocks
	blocks     []*block
	registered int // leading blocks that are in the prefix cache
	computed   int // tokens whose KV exists or is being computed
	ready      time.Time

	prefill Prefill
	timing  Timing
}

// length is the number of tokens known so far: prompt and emitted answer.
func (r *request) length() int { return len(r.Prompt) + r.emitted }

func (r *request) token(i int) Token {
	if i < len(r.Prompt) {
		return r.Prompt[i]
	}
	return r.Answer[i-len(r.Prompt)]
}

// Add queues a request. It fails when the request can never run.
func (s *Scheduler) Add(q Request, now time.Time) error {
	room := s.cfg.MaxModelLen - len(q.Prompt)
	switch {
	case len(q.Prompt) == 0 || len(q.Answer) == 0:
		return fmt.Errorf("request %d has %d prompt and %d answer tokens; both need at least one", q.ID, len(q.Prompt), len(q.Answer))
	case room < 1:
		return fmt.Errorf("request %d has %d prompt tokens, which leaves no room for an answer in a context of %d", q.ID, len(q.Prompt), s.cfg.MaxModelLen)
	case s.requests[q.ID] != nil:
		return fmt.Errorf("request %d is already in the engine", q.ID)
	}
	r := &request{Request: q, arrival: s.arrivals, limit: min(len(q.Answer), room)}
	if q.MaxTokens > 0 {
		r.limit = min(r.limit, q.MaxTokens)
	}
	r.timing.Queued = now
	s.arrivals++
	s.hash.extend(r, s.cfg.BlockSize)
	s.requests[q.ID] = r
	s.enqueue(r)
	return nil
}

// Abort ends a request and frees its blocks; what it computed stays cached. It
// reports whether the request was there.
func (s *Scheduler) Abort(id ID) bool {
	r, ok := s.requests[id]
	if !ok {
		return false
	}
	for _, queue := range []*[]*request{&s.waiting, &s.loading, &s.running} {
		if i := slices.Index(*queue, r); i >= 0 {
			*queue = slices.Delete(*queue, i, i+1)
		}
	}
	s.drop(r)
	return true
}

func (s *Scheduler) drop(r *request) {
	s.pool.release(r.blocks)
	r.blocks = nil
	delete(s.requests, r.ID)
}

// Step is the outcome of one scheduler step.
type Step struct {
	// Took is how long the step takes; its tokens appear at its end.
	Took time.Duration
	// Tokens are the emitted tokens in scheduling order.
	Tokens []TokenEvent
	// Computed is the number of tokens the step computed. 0 means that nothing
	// could run: wait for the next Add, or until Wake when it is set.
	Computed int
	// Wake is when a load from the host tier ends, if nothing else can run.
	Wake time.Time
	// Preempted counts requests thrown back to the waiting queue.
	Preempted int
}

// Step plans and performs one step that begins at now. Requests added or
// aborted while it lasts take part in the next one.
func (s *Scheduler) Step(now time.Time) Step {
	s.finishLoads(now)
	b := s.plan(now)
	thrown := b.preempted
	// A plan that only preempted, or only started loads that took no time, has
	// made room for another; each such round shortens a queue, so it ends.
	for len(b.items) == 0 && b.again {
		b = s.plan(now)
		thrown += b.preempted
	}
	if len(b.items) == 0 {
		return Step{Wake: s.nextLoad(), Preempted: thrown}
	}
	s.counters.Steps++
	took := s.cfg.Cost.Step(b.load)
	return Step{
		Took:      took,
		Tokens:    s.commit(b, now, now.Add(took)),
		Computed:  b.load.Tokens,
		Preempted: thrown,
	}
}

// enqueue puts a new or preempted request where it is looked at in its turn:
// a preempted one first, a new one last, or by priority.
func (s *Scheduler) enqueue(r *request) {
	at := len(s.waiting)
	if r.phase == preempted {
		at = 0
	}
	if s.cfg.Priority {
		at, _ = slices.BinarySearchFunc(s.waiting, r, byPriority)
	}
	s.waiting = slices.Insert(s.waiting, at, r)
}

func byPriority(a, b *request) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.arrival, b.arrival))
}

func (s *Scheduler) finishLoads(now time.Time) {
	for _, r := range s.loading {
		if r.phase == loading && !r.ready.After(now) {
			r.phase = loaded
			s.registerBlocks(r, r.computed)
		}
	}
}

func (s *Scheduler) nextLoad() time.Time {
	var next time.Time
	for _, r := range s.loading {
		if r.phase == loading && (next.IsZero() || r.ready.Before(next)) {
			next = r.ready
		}
	}
	return next
}

// Stats is the engine's state between two steps, as its metrics show it.
type Stats struct {
	Counters
	Running, Waiting int
	Deferred         int     // those of Waiting that wait for the host tier
	KVUsed           float64 // 0 to 1, blocks referenced by requests
}

// Stats returns the current state.
func (s *Scheduler) Stats() Stats {
	return Stats{
		Counters: s.counters,
		Running:  len(s.running),
		Waiting:  len(s.waiting) + len(s.loading),
		Deferred: len(s.loading),
		KVUsed:   s.pool.used(),
	}
}
