package router

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/lm-warden/warden/router/breaks"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/lru"
	"github.com/lm-warden/warden/router/placement"
)

// deployment is one model and its replicas. Its lock is the critical section
// of choice and reservation: a turn is counted on the replica chosen for it
// before the next turn is looked at. Nothing inside waits for anything.
type deployment struct {
	router *Router
	alias  string

	mu        sync.Mutex
	model     Model
	affine    string // the policy that "affinity on" means
	placer    *placement.Placer
	turns     map[uint64]*turn // waiting or placed
	upstreams map[ReplicaID]*upstream
	known     bool // SetReplicas has been called
	closed    bool
	wake      *time.Timer
	index     *identity.Index // conversations by id and by content
	talks     *lru.Map[identity.Key, *conversation]
	pins      *lru.Map[string, pin] // by identity.PinKey, in hex
	breaks    breaks.Watch
	stats     *stats
	// What was found out about the clients and the model, see mends.go.
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

// newDeployment makes the deployment of m's alias; configure gives it the rest.
// The bounds on conversations are those of its first configuration.
func newDeployment(r *Router, m Model) *deployment {
	known := m.Placement.MaxSessions
	if known <= 0 {
		known = maxConversations
	}
	r.metrics.Model(m.Alias)
	return &deployment{
		router: r, alias: m.Alias,
		placer:    placement.New(placement.Config{}),
		turns:     map[uint64]*turn{},
		upstreams: map[ReplicaID]*upstream{},
		index:     identity.NewIndex(identity.Limits{Conversations: known, Idle: m.Placement.SessionTTL}),
		talks:     lru.New[identity.Key, *conversation](known),
		pins:      lru.New[string, pin](maxPins),
		asked:     lru.New[identity.Key, struct{}](known),
		stats:     newStats(time.Now()),
	}
}

// unlock frees the lock and tells the events that happened under it: a
// listener may ask the Router something.
func (d *deployment) unlock() {
	events := d.events
	d.events = nil
	d.mu.Unlock()
	for _, e := range events {
		d.router.opts.OnEvent(e.kind, e.replica, d.alias, e.text, e.fields)
	}
}

func (d *deployment) tell(kind string, replica ReplicaID, text string, fields map[string]string) {
	d.events = append(d.events, event{kind, replica, text, fields})
}

// modelNow returns a copy of the model's settings.
func (d *deployment) modelNow() Model {
	d.mu.Lock()
	defer d.unlock()
	return d.model
}

// configure applies settings; conversations stay known.
func (d *deployment) configure(m Model) {
	d.mu.Lock()
	defer d.unlock()
	d.model = m
	d.affine = placement.PolicyAffinity
	if p := m.Placement.Policy; p != "" && p != placement.PolicyBalance {
		d.affine = p
	}
	d.step(placement.Configure{Config: m.Placement})
}

// arrive registers a request as a turn and asks for a place.
func (d *deployment) arrive(x *exchange) *turn {
	d.describe(x)
	who := x.who
	t := &turn{d: d, id: d.router.nextTurn.Add(1), client: who.Client, class: who.Class, turns: who.Turns, answers: make(chan placement.Action, 1),
		estimate: x.scan.Chars / charsPerToken, arrived: x.record.Arrived, folded: x.edit.FoldSystemTurns,
		body: d.router.fingerprint(x.scan, x.payload.Bytes), drop: x.drop}
	ask := placement.Turn{
		ID: t.id, Class: string(who.Class), Parent: placement.Key(who.Parent), Root: who.Root,
		PromptTokens: t.estimate, MaxOutput: x.scan.MaxTokens, Arrived: t.arrived, APIKey: x.keyID,
	}
	d.mu.Lock()
	defer d.unlock()
	t.hold = cmp.Or(d.model.Placement.MaxWait, maxHold)
	d.turns[t.id] = t
	if d.closed {
		d.refuse(t, placement.Reject{TurnID: t.id, Why: whyClosed})
		return t
	}
	if !d.pinned(who, &ask) {
		d.refuse(t, placement.Reject{TurnID: t.id, Why: placement.WhyPinnedGone})
		return t
	}
	d.recognise(t, who, &ask)
	t.asked = time.Now()
	d.step(placement.Arrive{Turn: ask})
	d.router.metrics.Decided(time.Since(t.asked))
	d.refuseHopeless()
	return t
}

// describe looks at the beginning of a prompt that is new here, before the lock
// is taken for the placement: it takes longer than all that happens under it.
func (d *deployment) describe(x *exchange) {
	d.mu.Lock()
	known := d.index.RootKnown(x.who)
	d.mu.Unlock()
	if !known {
		x.who.Describe(x.scan, x.payload.Bytes)
	}
}

// charsPerToken turns prompt text into the first estimate of tokens; placement
// corrects it by what engines report.
const charsPerToken = 4

// recognise names the turn's conversation, by the client's id or by its
// content, and finds the replica that its history is warm on.
func (d *deployment) recognise(t *turn, who *identity.Identity, ask *placement.Turn) {
	t.same = d.index.Resolve(*who, time.Now())
	t.key = t.same.Key
	if t.key.IsZero() {
		return
	}
	ask.Fresh = t.same.Kind == identity.KindCompaction
	if from, ok := d.talks.Get(t.same.From); ok {
		if u := d.upstreams[from.home]; u != nil && u.generation == from.generation {
			ask.Inherit = u.id
		}
	}
	ask.Key = placement.Key(t.key)
	talk, ok := d.talks.Get(t.key)
	if !ok {
		talk = &conversation{key: t.key, lastPrompt: -1, lastCached: -1}
		d.talks.Put(t.key, talk)
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
func (d *deployment) pinned(who *identity.Identity, ask *placement.Turn) bool {
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
func (d *deployment) step(ev placement.Event) {
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
func (d *deployment) dispatch(a placement.Dispatch) {
	t, up := d.turns[a.TurnID], d.upstreams[a.Replica]
	if t == nil || up == nil || up.generation != a.Generation {
		// Placement and this table are changed under one lock, so this is a
		// defect; give the place back rather than lose count of it.
		d.router.opts.Log.Error("placement names an unknown turn or replica", "replica", a.Replica, "model", d.alias)
		d.placer.Step(placement.Cancel{TurnID: a.TurnID}, time.Now())
		if t != nil {
			d.refuse(t, placement.Reject{TurnID: a.TurnID, Why: placement.WhyFailed, RetryAfter: time.Second})
		}
		return
	}
	t.up, t.believed = up, a.ExpectedCached
	up.held.Add(1)
	d.stats.of(up.id).placements[a.Reason]++
	d.router.metrics.Placed(d.alias, up.id, a.Reason, time.Since(t.asked))
	if t.talk != nil {
		t.talk.placed(a)
	}
	d.tellPlacement(t, a)
	t.answers <- a
}

// unplace takes a turn off its replica's counts.
func (d *deployment) unplace(t *turn) {
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

func (d *deployment) refuse(t *turn, a placement.Reject) {
	t.refused = true
	d.stats.refused++
	t.answers <- a
}

// tellPlacement reports the placements that an operator wants to see: those
// away from home.
func (d *deployment) tellPlacement(t *turn, a placement.Dispatch) {
	if a.Reason != placement.ReasonSpill && a.Reason != placement.ReasonFailover && !a.Rehomed {
		return
	}
	fields := map[string]string{"session": t.key.Short(), "reason": string(a.Reason)}
	switch {
	case a.Reason == placement.ReasonSpill:
		home := d.upstreams[a.Home]
		if home == nil || t.talk == nil {
			return
		}
		d.tell("spilled", a.Home, fmt.Sprintf("session %s turn %d -> %s (%s holds %d, spill limit %d)",
			t.key.Short(), t.talk.turns, a.Replica, a.Home, home.held.Load(),
			placement.SpillLimit(d.model.Placement.SpillLimit, home.facts.MaxNumSeqs)), fields)
	case a.Reason == placement.ReasonFailover:
		d.tell("failover", a.Replica, fmt.Sprintf("session %s -> %s", t.key.Short(), a.Replica), fields)
	case a.Rehomed:
		d.tell("rehomed", a.Replica, fmt.Sprintf("session %s now lives on %s", t.key.Short(), a.Replica), fields)
	}
}

// wakeAt replaces the wish for a Tick.
func (d *deployment) wakeAt(in time.Duration) {
	if d.closed {
		return
	}
	if d.wake == nil {
		d.wake = time.AfterFunc(in, d.tick)
		return
	}
	d.wake.Reset(in)
}

func (d *deployment) tick() {
	d.mu.Lock()
	defer d.unlock()
	if !d.closed {
		d.step(placement.Tick{})
	}
}

// refuseHopeless refuses the waiting turns at once when no replica accepts
// any and none is on its way: there is nothing to hold them for.
func (d *deployment) refuseHopeless() {
	if !d.known {
		return
	}
	for _, u := range d.upstreams {
		if u.facts.Accepting || u.facts.Starting {
			return
		}
	}
	d.refuseWaiting(placement.Reject{Why: whyNoReplica, RetryAfter: 30 * time.Second})
}

func (d *deployment) refuseWaiting(reject placement.Reject) {
	for _, t := range d.turns {
		if t.up == nil && !t.refused {
			d.step(placement.Cancel{TurnID: t.id})
			reject.TurnID = t.id
			d.refuse(t, reject)
		}
	}
}

// shut refuses what waits and releases timers and idle connections. Turns in
// flight go on; their replicas are somebody else's to end.
func (d *deployment) shut() {
	d.mu.Lock()
	defer d.unlock()
	if d.closed {
		return
	}
	d.closed = true
	d.refuseWaiting(placement.Reject{Why: whyClosed})
	if d.wake != nil {
		d.wake.Stop()
	}
	for _, u := range d.upstreams {
		u.retire()
	}
}

func (d *deployment) upstreamOf(t *turn) *upstream {
	d.mu.Lock()
	defer d.unlock()
	return t.up
}
