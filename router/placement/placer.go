package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/estimate"
	"github.com/lm-warden/warden/router/placement/ledger"
	"github.com/lm-warden/warden/router/placement/queue"
	"github.com/lm-warden/warden/router/placement/shadow"
)

// Placer places the turns of one model. It must be used by one caller at a
// time. Make one with New.
type Placer struct {
	cfg       Config
	place     policy
	admission *admission // nil unless that policy is on

	replicas []*ledger.Replica // sorted by ID
	byID     map[ReplicaID]*ledger.Replica
	turns    map[uint64]*turn
	sessions *ledger.Table
	hostTier bool // replicas have a host tier
	queue    queue.Queue[*turn]
	// blocked is why the first of those that wait for room does, "" when none
	// does: nobody may take that room. apart: some wait for reasons of their own.
	blocked Why
	apart   bool
	saved   []Saved // of an earlier Placer: their home is not known to run yet

	arrivals uint64 // replicas that have begun to accept turns
	rotation uint64 // where the next tie-break starts
	counters Counters

	// learned over all replicas
	ratio, growth float64
	rate          estimate.Rate
	pace          estimate.Pace // of finished turns
	turnTime      float64       // seconds from dispatch to finish

	pumps    uint64    // runs of pump, see ledger.Replica.Claimed
	now      time.Time // of the step in progress
	wake     time.Time // the latest WakeAt
	actions  []Action  // of the step in progress
	entering *turn     // of the step in progress: tell if it has to wait
	scratch  []*ledger.Replica
}

// turn is one Turn from its arrival to its end.
type turn struct {
	Turn
	session *ledger.Session // nil for turns that make no conversation
	root    *ledger.Root
	prompt  int // best estimate of prompt tokens

	// while waiting
	place queue.Place[*turn]
	why   Why

	// while dispatched
	replica    *ledger.Replica // nil while waiting
	reason     Reason
	dispatched time.Time
	firstByte  time.Time
	cached     int  // expected on that replica
	history    int  // admission: tokens that its resident conversation had there
	alone      bool // nothing else was held there
	loose      bool // admission: takes room outside the resident set
	faded      bool // admission: its resident conversation was likely gone when it came

	// admission, while waiting: the replica whose next room is kept for it, and
	// whether residents have begun to make that room
	claim    *ledger.Replica
	clearing bool

	pinned, pinnedRoot *shadow.Holding // tokens in use on that replica

	attempts []attempt
}

// attempt is a place where a turn has failed.
type attempt struct {
	replica *ledger.Replica
	at      time.Time
}

// retryPause is how long a replica that failed a turn is left out for that
// turn. A dead process is known dead long before; a live one that broke a
// connection may be asked again.
const retryPause = time.Second

// triedOn reports that t failed on r a moment ago. A new generation is another
// ledger, so it is not affected.
func (t *turn) triedOn(r *ledger.Replica, now time.Time) bool {
	for _, a := range t.attempts {
		if a.replica == r && now.Sub(a.at) < retryPause {
			return true
		}
	}
	return false
}

// Counters count since New. They only grow.
type Counters struct {
	// Placements by reason.
	Placements map[Reason]uint64
	// Queued turns, those refused, those cancelled by their client.
	Queued, Rejected, Cancelled uint64
	// HomesLost are homes of conversations lost to ended processes.
	HomesLost uint64
	// SessionsEvicted were forgotten for room, SessionsExpired for age.
	SessionsEvicted, SessionsExpired uint64
	// Ignored events named a turn that is not known, or known already.
	Ignored uint64
	// Rotations: conversations that lost their residency to a waiting one
	// (admission). SurpriseMisses: turns of residents that found less than
	// 60 % of what was expected in the cache.
	Rotations, SurpriseMisses uint64
}

// New returns a Placer without replicas.
func New(cfg Config) *Placer {
	p := &Placer{
		byID:     map[ReplicaID]*ledger.Replica{},
		turns:    map[uint64]*turn{},
		sessions: ledger.NewTable(),
		rotation: cfg.Seed,
		counters: Counters{Placements: map[Reason]uint64{}},
	}
	p.configure(cfg)
	return p
}

// Step takes one event and returns what to do, in order. Time that goes
// backwards counts as standing still.
func (p *Placer) Step(ev Event, now time.Time) []Action {
	if now.Before(p.now) {
		now = p.now
	}
	p.now, p.actions, p.entering = now, nil, nil
	p.counters.SessionsExpired += uint64(p.sessions.Expire(now, p.cfg.ActiveWindow, p.cfg.SessionTTL))

	switch e := ev.(type) {
	case Arrive:
		p.arrive(e.Turn, now)
	case Retry:
		p.retry(e, now)
	case Cancel:
		p.cancel(e.TurnID, now)
	case FirstByte:
		p.firstByte(e.TurnID, now)
	case Finish:
		p.finish(e.TurnID, e.Outcome, now)
	case Replicas:
		p.setReplicas(e.Replicas)
		p.bringBack(now)
	case Restore:
		p.restore(e.Sessions, now)
	case Stats:
		p.setStats(e)
	case Configure:
		p.configure(e.Config)
	case Tick:
	}
	p.admission.advance(p, now)
	p.refuseOverdue(now)
	p.pump(now)
	p.tellWaiting()
	p.arm(now)
	return p.actions
}

// policy decides about one turn: where it goes, or why it has to wait.
type policy func(p *Placer, t *turn, now time.Time) choice

// choice is a policy's answer.
type choice struct {
	to     *ledger.Replica // nil: the turn waits
	reason Reason
	// why the turn waits; everyone: no turn behind it could go either.
	why      Why
	everyone bool
	lane     *ledger.Replica // or: no turn behind it may have this replica
}

func (p *Placer) configure(cfg Config) {
	cfg = cfg.withDefaults()
	changed := p.place == nil || cfg.Policy != p.cfg.Policy
	p.cfg = cfg
	for _, r := range p.replicas {
		r.Safety.Overcommit = cfg.Admission.Overcommit
	}
	if !changed {
		return
	}
	p.admission.leave(p)
	p.admission = nil
	switch cfg.Policy {
	case PolicyBalance:
		p.place = balance
	case PolicyAffinity:
		p.place = affinity
	case PolicyAdmission:
		p.admission = &admission{}
		p.admission.enter(p)
		p.place = admit
	}
	for _, at := range p.queue.Ranked() {
		at.Rank = p.rankOf(at.Turn)
	}
	p.queue.Sort()
}

// arm asks for the next Tick if it is not asked for already.
func (p *Placer) arm(now time.Time) {
	at := p.admission.wake(p, now)
	if p.queue.Len() > 0 {
		at = earlier(at, p.queue.Oldest().Add(p.cfg.MaxWait))
	}
	if p.apart {
		at = earlier(at, now.Add(retryPause))
	}
	if at.IsZero() || (p.wake.After(now) && !at.Before(p.wake)) {
		return
	}
	p.wake = at
	p.act(WakeAt{At: at})
}

// earlier is the earlier of two times, of which zero means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

func (p *Placer) act(a Action) { p.actions = append(p.actions, a) }
