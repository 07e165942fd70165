package deployment

import (
	"maps"
	"time"

	"github.com/lm-warden/warden/router/breaks"
	"github.com/lm-warden/warden/router/figures"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/window"
)

// Snapshot is the state of one model.
type Snapshot struct {
	Alias, Repo string
	Names       []string
	Policy      string
	Affinity    bool // the policy keeps conversations where they are warm
	SpillLimit  int  // as set; 0 is automatic: see Replicas for the effective one

	SessionsLive, SessionsSeen int
	Placements                 map[placement.Reason]uint64
	HomesLost                  uint64

	Requests, Errors  uint64                    // ended on a replica; of those, failed
	Refused, Retried  uint64                    // got no place; attempts repeated elsewhere
	Resent            uint64                    // ended because the client sent them again
	Breaks            map[identity.Cause]uint64 // conversations whose cached prefix broke
	RequestsPerSecond float64
	TTFT              figures.Quantiles

	Queue    []QueuedTurn
	Replicas []ReplicaSnapshot
	Sessions []SessionSnapshot // latest seen first, cut at the limit asked for
}

// ReplicaSnapshot is the router's side of one replica.
type ReplicaSnapshot struct {
	ID         ReplicaID
	Generation uint64
	Accepting  bool

	Held, SpillLimit        int
	Sticky, Active, Spilled int // conversations
	// KV tokens: needed by active conversations, promised to residents
	// (admission), capacity (0 unknown).
	SessionTokens, ResidentTokens, CapacityTokens int
	// Conversations with a turn in the last placement.RecentWindow, and the KV
	// tokens that they need.
	Recent, RecentTokens int

	Requests, Errors  uint64
	RequestsPerSecond float64
	Placements        map[placement.Reason]uint64
	TTFT              figures.Quantiles
	Tokens            figures.Tokens
	LastByte          time.Time // zero: never
}

// SessionSnapshot is one conversation.
type SessionSnapshot struct {
	ID                    string // first 4 hex digits of the key: short, not unique
	Key                   string // whole key in hex
	Parent                string // short form of the conversation that started it, "" for none
	Client, Class, State  string // State: prefill, decode, waiting, idle
	Turns, Tokens, Spills int
	CachedShare           float64 // over all measured turns, 0 to 1, negative unknown
	// Prompt tokens of the latest answered turn and those of them from a prefix
	// cache; -1 where the engine did not measure.
	LastPrompt, LastCached int
	// Break says why its cached prefix stopped matching; nil while it has not.
	Break        *breaks.Found
	Home, Served ReplicaID
	Reason       placement.Reason
	Resident     bool
	LastSeen     time.Time
}

// QueuedTurn is one turn that waits for a place.
type QueuedTurn struct {
	Session  string // first 4 hex digits, "" without conversation
	Position int
	Why      placement.Why
	Since    time.Time
}

// Snapshot copies the state, with at most maxSessions conversations, and what the
// time to the first token lately was.
func (d *Deployment) Snapshot(now time.Time, maxSessions int) (Snapshot, window.Histogram) {
	d.mu.Lock()
	defer d.unlock()
	v := d.placer.ViewLatest(now, max(maxSessions, 0))
	m := Snapshot{
		Alias: d.Alias, Repo: d.model.Repo, Names: d.model.Names(),
		Policy: v.Policy, Affinity: v.Policy != placement.PolicyBalance, SpillLimit: d.model.Placement.SpillLimit,
		SessionsLive: v.SessionsKnown, SessionsSeen: int(d.stats.sessionsSeen),
		Placements: v.Counters.Placements, HomesLost: v.Counters.HomesLost,
		Refused: d.stats.refused, Retried: d.stats.retried, Resent: d.stats.resent,
		Breaks: maps.Clone(d.stats.breaks),
	}
	var ttft window.Histogram
	for _, p := range v.Replicas {
		s, h := d.replicaSnapshot(p, now)
		ttft.Merge(&h)
		m.Replicas = append(m.Replicas, s)
		m.RequestsPerSecond += s.RequestsPerSecond
	}
	for _, r := range d.stats.replicas { // also those that are gone
		ended, failed := r.Requests()
		m.Requests += ended
		m.Errors += failed
	}
	m.TTFT = figures.QuantilesOf(&ttft)
	for _, q := range v.Queue {
		m.Queue = append(m.Queue, QueuedTurn{Session: displayID(q.Key), Position: q.Position, Why: q.Why, Since: q.Since})
	}
	for _, s := range v.Sessions {
		m.Sessions = append(m.Sessions, d.sessionSnapshot(s))
	}
	return m, ttft
}

func (d *Deployment) replicaSnapshot(p placement.ReplicaView, now time.Time) (ReplicaSnapshot, window.Histogram) {
	r := d.stats.of(p.ID)
	ttft := r.TTFT(now)
	s := ReplicaSnapshot{
		ID: p.ID, Generation: p.Generation, Accepting: p.Accepting,
		Held: p.Held, SpillLimit: p.SpillLimit, Sticky: p.Sticky, Active: p.Active, Spilled: p.Spilled,
		Recent: p.Recent, RecentTokens: p.RecentTokens,
		SessionTokens: p.SessionTokens, ResidentTokens: p.ResidentTokens, CapacityTokens: p.CapacityTokens,
		RequestsPerSecond: r.RequestRate(now), Placements: maps.Clone(r.placements),
		TTFT: figures.QuantilesOf(&ttft), Tokens: r.Tokens(now),
	}
	s.Requests, s.Errors = r.Requests()
	if u := d.upstreams[p.ID]; u != nil {
		s.LastByte = u.latest()
	}
	return s, ttft
}

func (d *Deployment) sessionSnapshot(v placement.SessionView) SessionSnapshot {
	s := SessionSnapshot{
		ID: displayID(v.Key), Key: identity.Key(v.Key).String(), State: "idle",
		Turns: v.Turns, Tokens: v.Tokens, Spills: v.Spills,
		Parent: displayID(v.Parent), CachedShare: -1, LastPrompt: -1, LastCached: -1,
		Home: v.Home, Served: v.Served, Resident: v.Resident, LastSeen: v.LastSeen,
	}
	if c, ok := d.talks.Peek(identity.Key(v.Key)); ok {
		s.Client, s.Class, s.State = c.client, string(c.class), c.state(v.Waiting)
		s.CachedShare, s.Reason = c.cachedShare(), c.reason
		s.LastPrompt, s.LastCached, s.Break = c.lastPrompt, c.lastCached, c.past.Found
	}
	return s
}

// displayID is the key's short form, "" for none.
func displayID(k placement.Key) string {
	if k.IsZero() {
		return ""
	}
	return identity.Key(k).Short()
}

// Latest is what placement says now, without conversations, and how many of those
// there ever were.
func (d *Deployment) Latest(now time.Time) (view placement.View, sessionsSeen uint64) {
	d.mu.Lock()
	defer d.unlock()
	return d.placer.ViewLatest(now, 0), d.stats.sessionsSeen
}
