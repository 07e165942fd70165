package placement

import (
	"maps"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
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
func (p *Placer) View(now time.Time) View { return p.ViewLatest(now, p.sessions.Len()) }

// ViewLatest copies the state with at most so many conversations, those seen
// last. Each costs about 0.3 µs, and callers hold their lock meanwhile.
func (p *Placer) ViewLatest(now time.Time, sessions int) View {
	sessions = min(max(sessions, 0), p.sessions.Len())
	v := View{
		At:            now,
		Policy:        p.cfg.Policy,
		Sessions:      make([]SessionView, 0, sessions),
		Replicas:      make([]ReplicaView, 0, len(p.replicas)),
		Queue:         make([]QueuedView, 0, p.queue.Len()),
		Counters:      p.counters,
		SessionsKnown: p.sessions.Len(),
		GrowthTokens:  p.growth,
		TokenRatio:    p.ratio,
	}
	v.Counters.Placements = maps.Clone(p.counters.Placements)
	for _, r := range p.replicas {
		v.Replicas = append(v.Replicas, p.viewReplica(r))
	}
	p.countRecent(v.Replicas, now)
	for s := range p.sessions.Latest() {
		if len(v.Sessions) == sessions {
			break
		}
		v.Sessions = append(v.Sessions, viewSession(s))
	}
	for i, at := range p.queue.InOrder() {
		t := at.Turn
		q := QueuedView{TurnID: t.ID, Key: t.Key, Position: i + 1, Why: t.why, Since: at.Since}
		if t.session != nil && p.admission != nil {
			q.NeedTokens = p.admission.foot(p, t.session, max(t.prompt, t.session.Tokens()))
		}
		v.Queue = append(v.Queue, q)
	}
	return v
}

// countRecent sums what each replica's recent conversations need. They stand in
// front of the others.
func (p *Placer) countRecent(views []ReplicaView, now time.Time) {
	for s := range p.sessions.Active() {
		if now.Sub(s.LastSeen()) > RecentWindow {
			return
		}
		for i, r := range p.replicas {
			if s.Home() == r {
				views[i].Recent++
				views[i].RecentTokens += s.Counted()
			}
		}
	}
}

func (p *Placer) viewReplica(r *ledger.Replica) ReplicaView {
	return ReplicaView{
		ID: r.ID, Generation: r.Generation, Accepting: r.Accepting, Suspect: r.Suspect,
		Held: r.Held(), SpillLimit: SpillLimit(p.cfg.SpillLimit, r.MaxNumSeqs),
		Sticky: r.Homed(), Active: r.Active(), Spilled: r.Spilled(),
		SessionTokens: r.ActiveTokens(), CachedTokens: r.Cached(),
		ResidentTokens: r.Residents.Foot(), CapacityTokens: r.Capacity(),
		Residents: r.Residents.Len(), Share: r.Safety.Share(),
		PrefillTokens: r.Prefill(), PrefillRate: r.Rate.Measured(), Placed: r.Placed(),
	}
}

func viewSession(s *ledger.Session) SessionView {
	v := SessionView{
		Key: s.Key(), Parent: s.Parent, Turns: s.Turns(), Spills: s.Spills,
		InFlight: s.InFlight(), Waiting: s.Waiting(), Tokens: s.Tokens(),
		Resident: s.Resident() != nil, LastSeen: s.LastSeen(),
	}
	if r := s.HomeNow(); r != nil {
		v.Home = r.ID
	}
	if s.Served() != nil && !s.Served().Gone() {
		v.Served = s.Served().ID
	}
	return v
}
