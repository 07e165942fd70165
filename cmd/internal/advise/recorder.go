// Package advise keeps the last hour of each model's memory, minute by minute,
// and prints what supervisor/control/advice makes of it.
//
// Reader's path: recorder.go (looks become minutes), print.go.
package advise

import (
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
	Alias          string
	Replicas       []ReplicaLook
	LargestSession int // tokens
	Queued         int // turns that warden holds back
}

// ReplicaLook is one replica. The counters are the engine's own, since its start.
type ReplicaLook struct {
	ID         string
	Generation uint64
	Ready      bool
	Sessions   int // conversations in use whose home it is
	Need       int // KV tokens that they need
	Capacity   int // KV tokens
	Held       int // turns
	Waiting    int // turns in the engine's queue
	Counters   Counters
}

// Counters only grow while an engine lives.
type Counters struct{ Queried, Hits, HostQueried, HostHits, Preemptions uint64 }

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
	minutes []control.Minute
	looks   int                // of the last minute
	last    map[string]reading // by replica
}

type reading struct {
	generation uint64
	counters   Counters
}

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
			r.models = append(r.models, &record{alias: l.Alias, last: map[string]reading{}})
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
		mine := control.ModelHistory{Alias: m.alias, Minutes: []control.Minute{}}
		for _, minute := range m.minutes {
			if now.Sub(minute.At) <= time.Hour+time.Minute {
				mine.Minutes = append(mine.Minutes, minute)
			}
		}
		h.Models = append(h.Models, mine)
	}
	return h
}

func (m *record) add(now time.Time, l Look) {
	begin := now.Truncate(time.Minute)
	if n := len(m.minutes); n == 0 || m.minutes[n-1].At.Before(begin) {
		m.minutes, m.looks = append(m.minutes, control.Minute{At: begin}), 0
		if len(m.minutes) > kept {
			m.minutes = slices.Delete(m.minutes, 0, len(m.minutes)-kept)
		}
	}
	m.looks++
	fold(&m.minutes[len(m.minutes)-1], l, m.looks)
	for _, r := range l.Replicas {
		m.count(r)
	}
}

// fold adds the n-th look of a minute.
func fold(m *control.Minute, l Look, n int) {
	ready, sessions, need, held, waiting, capacity, smallest := 0, 0, 0, 0, 0, 0, 0
	for _, r := range l.Replicas {
		sessions, need, held, waiting = sessions+r.Sessions, need+r.Need, held+r.Held, waiting+r.Waiting
		if !r.Ready {
			continue
		}
		ready++
		capacity += r.Capacity
		if smallest == 0 || r.Capacity > 0 && r.Capacity < smallest {
			smallest = r.Capacity
		}
	}
	m.Sessions, m.Need = mean(m.Sessions, sessions, n), mean(m.Need, need, n)
	m.Held, m.Waiting = mean(m.Held, held, n), mean(m.Waiting, waiting, n)
	m.Ready, m.PeakSessions, m.PeakNeed = max(m.Ready, ready), max(m.PeakSessions, sessions), max(m.PeakNeed, need)
	m.LargestSession, m.PeakQueued = max(m.LargestSession, l.LargestSession), max(m.PeakQueued, l.Queued)
	if capacity > m.Capacity {
		m.Capacity, m.SmallestCapacity = capacity, smallest
	}
}

// mean of n values, from that of the first n-1 and the last.
func mean(before float64, value, n int) float64 { return before + (float64(value)-before)/float64(n) }

// count adds what an engine's counters grew by. Those of a new process begin at
// zero; those of one that is seen first may be of long ago.
func (m *record) count(r ReplicaLook) {
	was, known := m.last[r.ID]
	m.last[r.ID] = reading{r.Generation, r.Counters}
	switch {
	case !known || r.Counters == (Counters{}):
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
