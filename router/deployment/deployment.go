package deployment

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lm-warden/warden/router/breaks"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/identity/scan"
	"github.com/lm-warden/warden/router/link"
	"github.com/lm-warden/warden/router/lru"
	"github.com/lm-warden/warden/router/metrics"
	"github.com/lm-warden/warden/router/placement"
)

// ReplicaID names a replica; ids are unique over all models.
type ReplicaID = placement.ReplicaID

// Options are what the deployments of one router have in common. All are needed.
type Options struct {
	Log     *slog.Logger
	Metrics *metrics.Set
	Dial    link.Dialer
	Buffers *link.Buffers // for reading answers
	// OnFailure is told of a broken replica, OnEvent what an operator may want to
	// see. Neither may block.
	OnFailure func(id ReplicaID, generation uint64, err error)
	OnEvent   func(kind string, replica ReplicaID, model, text string, fields map[string]string)
}

// Deployment is one model and its replicas. Its lock is the critical section
// of choice and reservation: a turn is counted on the replica chosen for it
// before the next turn is looked at. Nothing inside waits for anything. Make one
// with New.
type Deployment struct {
	Alias string // the model's; never changes
	opts  Options

	latestTurn atomic.Uint64
	seed       maphash.Seed // of fingerprints

	mu        sync.Mutex
	model     Model
	affine    string // the policy that "affinity on" means
	placer    *placement.Placer
	turns     map[uint64]*Turn // waiting or placed
	upstreams map[ReplicaID]*Upstream
	known     bool // SetReplicas has been called
	closed    bool
	wake      *time.Timer
	index     *identity.Index // conversations by id and by content
	talks     *lru.Map[identity.Key, *conversation]
	pins      *lru.Map[string, pin] // by identity.PinKey, in hex
	breaks    breaks.Watch
	stats     *stats
	// What was found out about the clients and the model, see fold.go.
	asked       *lru.Map[identity.Key, struct{}] // conversations told once to fold their system turns
	alternating bool                             // the chat template refuses two user messages in a row
	events      []event                          // to be told once the lock is free
}

// pin is the one process that holds a stored response.
type pin struct {
	replica    ReplicaID
	generation uint64
}

// event is one call of Options.OnEvent.
type event struct {
	kind    string
	replica ReplicaID
	text    string
	fields  map[string]string
}

// Bounds of what is remembered per model, unless its settings say otherwise;
// the first is that of placement.
const (
	maxConversations = 10_000
	maxPins          = 10_000
)

// New makes the deployment of m's alias; Configure gives it the rest. The bounds
// on conversations are those of its first configuration.
func New(m Model, opts Options) *Deployment {
	known := m.Placement.MaxSessions
	if known <= 0 {
		known = maxConversations
	}
	opts.Metrics.Model(m.Alias)
	return &Deployment{
		Alias: m.Alias, opts: opts, seed: maphash.MakeSeed(),
		placer:    placement.New(placement.Config{}),
		turns:     map[uint64]*Turn{},
		upstreams: map[ReplicaID]*Upstream{},
		index:     identity.NewIndex(identity.Limits{Conversations: known, Idle: m.Placement.SessionTTL}),
		talks:     lru.New[identity.Key, *conversation](known),
		pins:      lru.New[string, pin](maxPins),
		asked:     lru.New[identity.Key, struct{}](known),
		stats:     newStats(time.Now()),
	}
}

// unlock frees the lock and tells the events that happened under it: a
// listener may ask the deployment something.
func (d *Deployment) unlock() {
	events := d.events
	d.events = nil
	d.mu.Unlock()
	for _, e := range events {
		d.opts.OnEvent(e.kind, e.replica, d.Alias, e.text, e.fields)
	}
}

func (d *Deployment) tell(kind string, replica ReplicaID, text string, fields map[string]string) {
	d.events = append(d.events, event{kind, replica, text, fields})
}

// Request is one request that asks for a place.
type Request struct {
	Who     *identity.Identity
	Scan    *scan.Body
	Body    []byte // as the client sent it
	Arrived time.Time
	KeyID   string // its API key, in words that may be logged
	Folded  bool   // its system turns were rewritten
	Drop    func() // ends it for a later copy of it
}

// Arrive registers a request as a turn and asks for a place. The turn must be
// ended.
func (d *Deployment) Arrive(r *Request) *Turn {
	d.describe(r)
	who := r.Who
	t := &Turn{d: d, id: d.latestTurn.Add(1), client: who.Client, class: who.Class, turns: who.Turns, answers: make(chan placement.Action, 1),
		Estimate: r.Scan.Chars / charsPerToken, Arrived: r.Arrived, folded: r.Folded,
		body: d.fingerprint(r.Scan, r.Body), drop: r.Drop}
	ask := placement.Turn{
		ID: t.id, Class: string(who.Class), Parent: placement.Key(who.Parent), Root: who.Root,
		PromptTokens: t.Estimate, MaxOutput: r.Scan.MaxTokens, Arrived: t.Arrived, APIKey: r.KeyID,
	}
	d.mu.Lock()
	defer d.unlock()
	t.hold = cmp.Or(d.model.Placement.MaxWait, maxHold)
	d.turns[t.id] = t
	if d.closed {
		d.refuse(t, placement.Reject{TurnID: t.id, Why: WhyClosed})
		return t
	}
	if !d.pinned(who, &ask) {
		d.refuse(t, placement.Reject{TurnID: t.id, Why: placement.WhyPinnedGone})
		return t
	}
	d.recognise(t, who, &ask)
	t.asked = time.Now()
	d.step(placement.Arrive{Turn: ask})
	d.opts.Metrics.Decided(time.Since(t.asked))
	d.refuseHopeless()
	return t
}

// describe looks at the beginning of a prompt that is new here, before the lock
// is taken for the placement: it takes longer than all that happens under it.
func (d *Deployment) describe(r *Request) {
	d.mu.Lock()
	known := d.index.RootKnown(r.Who)
	d.mu.Unlock()
	if !known {
		r.Who.Describe(r.Scan, r.Body)
	}
}

// charsPerToken turns prompt text into the first estimate of tokens; placement
// corrects it by what engines report.
const charsPerToken = 4

// recognise names the turn's conversation, by the client's id or by its
// content, and finds the replica that its history is warm on.
func (d *Deployment) recognise(t *Turn, who *identity.Identity, ask *placement.Turn) {
	t.same = d.index.Resolve(*who, time.Now())
	t.Key = t.same.Key
	if t.Key.IsZero() {
		return
	}
	ask.Fresh = t.same.Kind == identity.KindCompaction
	if from, ok := d.talks.Get(t.same.From); ok {
		if u := d.upstreams[from.home]; u != nil && u.Generation == from.generation {
			ask.Inherit = u.ID
		}
	}
	ask.Key = placement.Key(t.Key)
	talk, ok := d.talks.Get(t.Key)
	if !ok {
		talk = &conversation{key: t.Key, lastPrompt: -1, lastCached: -1}
		d.talks.Put(t.Key, talk)
		d.stats.sessionsSeen++
	}
	talk.client, talk.class, talk.parent = t.client, t.class, who.Parent
	t.talk = talk
	d.replaceEarlier(t)
	talk.open = append(talk.open, t)
}

// pinned directs a turn that builds on a stored response to the process that
// holds it; false when nobody does. With one replica there is no choice, and
// it may know the response from before warden started.
func (d *Deployment) pinned(who *identity.Identity, ask *placement.Turn) bool {
	if who.StatePin == "" {
		return true
	}
	p, ok := d.pins.Get(who.StatePin)
	if !ok {
		return len(d.upstreams) == 1
	}
	ask.Pinned, ask.PinnedGeneration = p.replica, p.generation
	return true
}

// step tells placement one event and carries out its answers. The lock is held.
func (d *Deployment) step(ev placement.Event) {
	now := time.Now()
	for _, action := range d.placer.Step(ev, now) {
		switch a := action.(type) {
		case placement.Dispatch:
			d.dispatch(a)
		case placement.Reject:
			if t := d.turns[a.TurnID]; t != nil {
				d.refuse(t, a)
			}
		case placement.Queue:
			d.stats.queued++
		case placement.WakeAt:
			d.wakeAt(a.At.Sub(now))
		}
	}
}

// dispatch hands a reserved place to the turn that waits for it.
func (d *Deployment) dispatch(a placement.Dispatch) {
	t, up := d.turns[a.TurnID], d.upstreams[a.Replica]
	if t == nil || up == nil || up.Generation != a.Generation {
		// Placement and this table are changed under one lock, so this is a
		// defect; give the place back rather than lose count of it.
		d.opts.Log.Error("placement names an unknown turn or replica", "replica", a.Replica, "model", d.Alias)
		d.placer.Step(placement.Cancel{TurnID: a.TurnID}, time.Now())
		if t != nil {
			d.refuse(t, placement.Reject{TurnID: a.TurnID, Why: placement.WhyFailed, RetryAfter: time.Second})
		}
		return
	}
	t.up, t.believed = up, a.ExpectedCached
	up.held.Add(1)
	d.stats.of(up.ID).placements[a.Reason]++
	d.opts.Metrics.Placed(d.Alias, up.ID, a.Reason, time.Since(t.asked))
	if t.talk != nil {
		t.talk.placed(a)
	}
	d.tellPlacement(t, a)
	t.answers <- a
}

// unplace takes a turn off its replica's counts.
func (d *Deployment) unplace(t *Turn) {
	t.up.held.Add(-1)
	if t.talk != nil {
		if t.decoding {
			t.talk.decode--
		} else {
			t.talk.prefill--
		}
	}
	t.up, t.decoding = nil, false
}

// Reasons to refuse a turn, beside those of placement.
const (
	WhyNoReplica placement.Why = "no_replica" // none is running and none is starting
	WhyClosed    placement.Why = "closed"
)

func (d *Deployment) refuse(t *Turn, a placement.Reject) {
	t.refused = true
	d.stats.refused++
	t.answers <- a
}

// tellPlacement reports the placements that an operator wants to see: those
// away from home.
func (d *Deployment) tellPlacement(t *Turn, a placement.Dispatch) {
	if a.Reason != placement.ReasonSpill && a.Reason != placement.ReasonFailover && !a.Rehomed {
		return
	}
	fields := map[string]string{"session": t.Key.Short(), "reason": string(a.Reason)}
	switch {
	case a.Reason == placement.ReasonSpill:
		home := d.upstreams[a.Home]
		if home == nil || t.talk == nil {
			return
		}
		d.tell("spilled", a.Home, fmt.Sprintf("session %s turn %d -> %s (%s holds %d, spill limit %d)",
			t.Key.Short(), t.talk.turns, a.Replica, a.Home, home.held.Load(),
			placement.SpillLimit(d.model.Placement.SpillLimit, home.facts.MaxNumSeqs)), fields)
	case a.Reason == placement.ReasonFailover:
		d.tell("failover", a.Replica, fmt.Sprintf("session %s -> %s", t.Key.Short(), a.Replica), fields)
	case a.Rehomed:
		d.tell("rehomed", a.Replica, fmt.Sprintf("session %s now lives on %s", t.Key.Short(), a.Replica), fields)
	}
}

// wakeAt replaces the wish for a Tick.
func (d *Deployment) wakeAt(in time.Duration) {
	if d.closed {
		return
	}
	if d.wake == nil {
		d.wake = time.AfterFunc(in, d.tick)
		return
	}
	d.wake.Reset(in)
}

func (d *Deployment) tick() {
	d.mu.Lock()
	defer d.unlock()
	if !d.closed {
		d.step(placement.Tick{})
	}
}

// refuseHopeless refuses the waiting turns at once when no replica accepts
// any and none is on its way: there is nothing to hold them for.
func (d *Deployment) refuseHopeless() {
	if !d.known {
		return
	}
	for _, u := range d.upstreams {
		if u.facts.Accepting || u.facts.Starting {
			return
		}
	}
	d.refuseWaiting(placement.Reject{Why: WhyNoReplica, RetryAfter: 30 * time.Second})
}

func (d *Deployment) refuseWaiting(reject placement.Reject) {
	for _, t := range d.turns {
		if t.up == nil && !t.refused {
			d.step(placement.Cancel{TurnID: t.id})
			reject.TurnID = t.id
			d.refuse(t, reject)
		}
	}
}

// Shut refuses what waits and releases timers and idle connections. Turns in
// flight go on; their replicas are somebody else's to end.
func (d *Deployment) Shut() {
	d.mu.Lock()
	defer d.unlock()
	if d.closed {
		return
	}
	d.closed = true
	d.refuseWaiting(placement.Reject{Why: WhyClosed})
	if d.wake != nil {
		d.wake.Stop()
	}
	for _, u := range d.upstreams {
		u.retire()
	}
}

func (d *Deployment) upstreamOf(t *Turn) *Upstream {
	d.mu.Lock()
	defer d.unlock()
	return t.up
}
