// Package advise keeps the last hour of each model's memory, minute by minute,
// and prints what supervisor/control/advice makes of it.
//
// Reader's path: recorder.go (looks become minutes), print.go.
package advise

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

const (
	// Every is how often the daemon is to look. A minute of twelve looks shows
	// peaks that last as long as a few turns.
	Every = 5 * time.Second

	// kept minutes: the last hour and the one under way.
	kept = 61
)

// Look is what one model looks like at one moment.
type Look struct {
	Alias    string
	Replicas []ReplicaLook
	Talks    []Talk // the latest seen are enough
	Queued   int    // turns that warden holds back
}

// ReplicaLook is one replica. The counters are the engine's own, since its start.
type ReplicaLook struct {
	ID         string
	Generation uint64
	Ready      bool
	Sessions   int  // conversations seen lately whose home it is
	Need       int  // KV tokens of these, a shared prompt not counted
	Capacity   int  // KV tokens
	Held       int  // turns
	Waiting    int  // turns in the engine's queue
	Counted    bool // the counters were read
	Counters   Counters
}

// Counters only grow while an engine lives.
type Counters struct{ Queried, Hits, HostQueried, HostHits, Preemptions uint64 }

// Talk is one conversation.
type Talk struct {
	Key    string
	Seen   time.Time // its latest turn
	Busy   bool      // a turn is waiting or under way
	Tokens int
}

// Recorder turns looks into minutes. Its methods may be called from several
// goroutines.
type Recorder struct {
	started time.Time

	mu     sync.Mutex
	models []*record
}

// record is one model's minutes; the last one is under way.
type record struct {
	alias   string
	minutes []minute
	last    map[string]reading // by replica
	// spans say from when to when a conversation was in use. That of now is known
	// only later: whether one comes back shows when it does.
	spans map[string]span
}

type minute struct {
	control.Minute
	looks          int
	sessions, need int // sums over looks of what placement counts
}

type reading struct {
	generation uint64
	counters   Counters
}

type span struct{ from, to time.Time }

// NewRecorder begins to record now.
func NewRecorder(now time.Time) *Recorder { return &Recorder{started: now} }

// Add takes looks at all models at one moment.
func (r *Recorder) Add(now time.Time, looks []Look) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range looks {
		i := slices.IndexFunc(r.models, func(m *record) bool { return m.alias == l.Alias })
		if i < 0 {
			i = len(r.models)
			r.models = append(r.models, &record{alias: l.Alias, last: map[string]reading{}, spans: map[string]span{}})
		}
		r.models[i].add(now, l)
	}
}

// History returns what was recorded.
func (r *Recorder) History(now time.Time) control.History {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := control.History{Now: now, Started: r.started, Models: []control.ModelHistory{}}
	for _, m := range r.models {
		h.Models = append(h.Models, control.ModelHistory{Alias: m.alias, Minutes: m.lastHour(now)})
	}
	return h
}

// longest is how far back a minute may begin.
const longest = time.Hour + time.Minute

func (m *record) lastHour(now time.Time) []control.Minute {
	inUse := newCrowd(m.spans)
	out := []control.Minute{}
	for _, minute := range m.minutes {
		if now.Sub(minute.At) > longest {
			continue
		}
		each := 0.0 // KV tokens of one conversation
		if minute.sessions > 0 {
			each = float64(minute.need) / float64(minute.sessions)
		}
		n, sum := 0, 0
		for at := minute.At; at.Before(minute.At.Add(time.Minute)) && !at.After(now); at = at.Add(Every) {
			c := inUse.at(at)
			n, sum = n+1, sum+c
			minute.PeakSessions = max(minute.PeakSessions, c)
		}
		if n > 0 {
			minute.Sessions = float64(sum) / float64(n)
		}
		minute.Need, minute.PeakNeed = minute.Sessions*each, int(float64(minute.PeakSessions)*each)
		out = append(out, minute.Minute)
	}
	return out
}

// crowd answers how many spans hold a moment.
type crowd struct{ from, to []time.Time }

func newCrowd(spans map[string]span) crowd {
	var c crowd
	for _, s := range spans {
		c.from, c.to = append(c.from, s.from), append(c.to, s.to)
	}
	slices.SortFunc(c.from, time.Time.Compare)
	slices.SortFunc(c.to, time.Time.Compare)
	return c
}

func (c crowd) at(t time.Time) int {
	begun, _ := slices.BinarySearchFunc(c.from, t.Add(1), time.Time.Compare)
	ended, _ := slices.BinarySearchFunc(c.to, t, time.Time.Compare)
	return begun - ended
}

func (m *record) add(now time.Time, l Look) {
	begin := now.Truncate(time.Minute)
	m.forgetFuture(begin)
	if n := len(m.minutes); n == 0 || m.minutes[n-1].At.Before(begin) {
		m.minutes = append(m.minutes, minute{Minute: control.Minute{At: begin}})
		if len(m.minutes) > kept {
			m.minutes = slices.Delete(m.minutes, 0, len(m.minutes)-kept)
		}
		maps.DeleteFunc(m.spans, func(_ string, s span) bool { return now.Sub(s.to) > longest })
	}
	for _, t := range l.Talks {
		m.see(now, t)
	}
	m.minutes[len(m.minutes)-1].fold(l)
	for _, r := range l.Replicas {
		m.count(r)
	}
}

// forgetFuture drops what lies ahead since the clock was set back: it would stand
// in the way of what is true now until the clock is there again.
func (m *record) forgetFuture(begin time.Time) {
	n := len(m.minutes)
	if n == 0 || !m.minutes[n-1].At.After(begin) {
		return
	}
	m.minutes = slices.DeleteFunc(m.minutes, func(one minute) bool { return one.At.After(begin) })
	clear(m.spans) // with times of both clocks
}

// see makes a conversation's span longer.
func (m *record) see(now time.Time, t Talk) {
	seen := t.Seen
	if t.Busy || seen.After(now) {
		seen = now
	}
	if now.Sub(seen) > longest {
		return
	}
	s, known := m.spans[t.Key]
	if !known {
		s.from = seen
	}
	s.to = seen
	m.spans[t.Key] = s
}

// fold adds a look to its minute.
func (m *minute) fold(l Look) {
	m.looks++
	ready, held, waiting, capacity, smallest := 0, 0, 0, 0, 0
	for _, r := range l.Replicas {
		m.sessions, m.need = m.sessions+r.Sessions, m.need+r.Need
		held, waiting = held+r.Held, waiting+r.Waiting
		if !r.Ready {
			continue
		}
		ready++
		capacity += r.Capacity
		if smallest == 0 || r.Capacity > 0 && r.Capacity < smallest {
			smallest = r.Capacity
		}
	}
	for _, t := range l.Talks {
		if t.Busy { // the others' may have been long before
			m.LargestSession = max(m.LargestSession, t.Tokens)
		}
	}
	m.Held, m.Waiting = mean(m.Held, held, m.looks), mean(m.Waiting, waiting, m.looks)
	m.Ready, m.PeakQueued = max(m.Ready, ready), max(m.PeakQueued, l.Queued)
	if capacity > m.Capacity {
		m.Capacity, m.SmallestCapacity = capacity, smallest
	}
}

// mean of n values, from that of the first n-1 and the last.
func mean(before float64, value, n int) float64 { return before + (float64(value)-before)/float64(n) }

// count adds what an engine's counters grew by. Those of a new process begin at
// zero; those of one that is seen first may be of long ago.
func (m *record) count(r ReplicaLook) {
	if !r.Counted {
		return
	}
	was, known := m.last[r.ID]
	m.last[r.ID] = reading{r.Generation, r.Counters}
	switch {
	case !known:
		return
	case was.generation != r.Generation || r.Counters.Queried < was.counters.Queried:
		was.counters = Counters{}
	}
	now, minute := r.Counters, &m.minutes[len(m.minutes)-1]
	minute.QueriedTokens += grown(now.Queried, was.counters.Queried)
	minute.HitTokens += grown(now.Hits, was.counters.Hits)
	minute.HostQueriedTokens += grown(now.HostQueried, was.counters.HostQueried)
	minute.HostHitTokens += grown(now.HostHits, was.counters.HostHits)
	minute.Preemptions += grown(now.Preemptions, was.counters.Preemptions)
}

func grown(now, was uint64) uint64 { return max(now, was) - was }
