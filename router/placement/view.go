package placement

import (
	"maps"
	"time"
)

// View is a copy of the Placer's state for people and metrics.
type View struct {
	At       time.Time
	Policy   string
	Sessions []SessionView // latest seen first
	Replicas []ReplicaView // sorted by ID
	Queue    []QueuedView  // in order
	Counters Counters
	// SessionsKnown counts all conversations, also when Sessions was cut.
	SessionsKnown int
	// GrowthTokens is the average number of tokens that a turn adds;
	// TokenRatio the engine's prompt tokens per estimated token.
	GrowthTokens, TokenRatio float64
}

// ReplicaView is one replica's ledger.
type ReplicaView struct {
	ID                 ReplicaID
	Generation         uint64
	Accepting, Suspect bool
	// Held turns, in flight now. SpillLimit is the effective limit.
	Held, SpillLimit int
	// Sticky conversations have their home here, Active ones of them were
	// seen lately, Spilled ones were served here last but live elsewhere.
	Sticky, Active, Spilled int
	// SessionTokens is what the active conversations that live here need,
	// CachedTokens what we believe the prefix cache holds, ResidentTokens
	// what admission has promised room to, of CapacityTokens (0: unknown).
	SessionTokens, CachedTokens, ResidentTokens, CapacityTokens int
	// Recent conversations of the active ones had a turn in the last
	// RecentWindow; RecentTokens is what those need.
	Recent, RecentTokens int
	// Residents counts conversations with a promise (admission), Share is
	// the part of the capacity that is handed out, 0 to 1.
	Residents int
	Share     float64
	// PrefillTokens wait for their first byte; PrefillRate is the measured
	// speed in tokens per second, 0 before the first measurement.
	PrefillTokens int
	PrefillRate   float64
	// Placed turns since this process started.
	Placed uint64
}

// SessionView is one conversation.
type SessionView struct {
	Key    Key
	Parent Key
	// Home is empty while there is none, or when its process has ended.
	// Served is where the latest turn went.
	Home, Served ReplicaID
	Turns        int
	Spills       int
	InFlight     int
	Waiting      int
	Tokens       int
	// Resident on Home (admission).
	Resident bool
	LastSeen time.Time
}

// QueuedView is one waiting turn.
type QueuedView struct {
	TurnID   uint64
	Key      Key
	Position int
	Why      Why
	Since    time.Time
	// NeedTokens is the room its conversation needs (admission).
	NeedTokens int
}

// RecentWindow is Denning's window for the working set of a cache: longer than an
// agent's tools take between two turns, and short enough that the prefixes of
// conversations that have ended are not counted as needed for long.
const RecentWindow = 2 * time.Minute

// View copies the state with all conversations.
func (p *Placer) View(now time.Time) View { return p.ViewLatest(now, p.sessions.len()) }

// ViewLatest copies the state with at most so many conversations, those seen
// last. Each costs about 0.3 µs, and callers hold their lock meanwhile.
func (p *Placer) ViewLatest(now time.Time, sessions int) View {
	sessions = min(max(sessions, 0), p.sessions.len())
	v := View{
		At:            now,
		Policy:        p.cfg.Policy,
		Sessions:      make([]SessionView, 0, sessions),
		Replicas:      make([]ReplicaView, 0, len(p.replicas)),
		Queue:         make([]QueuedView, 0, p.queue.len()),
		Counters:      p.counters,
		SessionsKnown: p.sessions.len(),
		GrowthTokens:  p.growth,
		TokenRatio:    p.ratio,
	}
	v.Counters.Placements = maps.Clone(p.counters.Placements)
	for _, r := range p.replicas {
		v.Replicas = append(v.Replicas, p.viewReplica(r))
	}
	p.countRecent(v.Replicas, now)
	for _, l := range []*sessionList{&p.sessions.active, &p.sessions.dormant} {
		for s := l.head; s != nil && len(v.Sessions) < sessions; s = s.next {
			v.Sessions = append(v.Sessions, viewSession(s))
		}
	}
	for i, t := range p.order() {
		q := QueuedView{TurnID: t.ID, Key: t.Key, Position: i + 1, Why: t.why, Since: t.queued}
		if t.session != nil && p.admission != nil {
			q.NeedTokens = p.admission.foot(p, t.session, max(t.prompt, t.session.tokens))
		}
		v.Queue = append(v.Queue, q)
	}
	return v
}

// countRecent sums what each replica's recent conversations need. They stand in
// front of the others.
func (p *Placer) countRecent(views []ReplicaView, now time.Time) {
	for s := p.sessions.active.head; s != nil && now.Sub(s.lastSeen) <= RecentWindow; s = s.next {
		for i, r := range p.replicas {
			if s.home == r {
				views[i].Recent++
				views[i].RecentTokens += s.counted
			}
		}
	}
}

func (p *Placer) viewReplica(r *replica) ReplicaView {
	v := ReplicaView{
		ID: r.ID, Generation: r.Generation, Accepting: r.Accepting, Suspect: r.Suspect,
		Held: r.held, SpillLimit: SpillLimit(p.cfg.SpillLimit, r.MaxNumSeqs),
		Sticky: r.homed, Active: r.active, Spilled: r.spilled,
		SessionTokens: r.activeTokens, CachedTokens: r.cache.used,
		ResidentTokens: r.res.foot, CapacityTokens: r.capacity(),
		Residents: len(r.res.members), Share: r.safety.share(),
		PrefillTokens: r.prefill, Placed: r.placed,
	}
	if r.rate.samples > 0 {
		v.PrefillRate = r.rate.perSecond
	}
	return v
}

func viewSession(s *session) SessionView {
	v := SessionView{
		Key: s.key, Parent: s.parent, Turns: s.turns, Spills: s.spills,
		InFlight: s.inflight, Waiting: s.waiting, Tokens: s.tokens,
		Resident: s.residentNow() != nil, LastSeen: s.lastSeen,
	}
	if r := s.homeNow(); r != nil {
		v.Home = r.ID
	}
	if s.served != nil && !s.served.gone {
		v.Served = s.served.ID
	}
	return v
}
