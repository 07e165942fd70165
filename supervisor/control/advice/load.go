package advice

import "github.com/lm-warden/warden/supervisor/control"

// Load is what a model's conversations asked of its KV cache over a time.
type Load struct {
	Minutes        int      `json:"minutes"`         // with work
	Sessions       float64  `json:"sessions"`        // mean number of conversations in use
	PeakSessions   int      `json:"peak_sessions"`   // in the busiest look
	SessionTokens  int      `json:"session_tokens"`  // mean KV tokens of one
	LargestSession int      `json:"largest_session"` // tokens
	Need           int      `json:"need_tokens"`     // mean of what all in use need
	PeakNeed       int      `json:"peak_need_tokens"`
	Capacity       int      `json:"capacity_tokens"`         // of all replicas, at the end
	Replica        int      `json:"replica_capacity_tokens"` // of the smallest replica
	Over           int      `json:"minutes_over"`            // with a peak above the capacity
	HitRate        *float64 `json:"hit_rate,omitempty"`      // of queried tokens, the host tier included
	HostHitRate    *float64 `json:"host_hit_rate,omitempty"` // of tokens looked for in the host tier
	Waiting        float64  `json:"waiting"`                 // mean turns waiting inside the engines
	PeakQueued     int      `json:"peak_queued"`             // turns that warden held back
	Preemptions    uint64   `json:"preemptions"`
}

// Sum makes one Load of minutes. Minutes without work say nothing about it.
func Sum(minutes []control.Minute) Load {
	var l Load
	var queried, hits, hostQueried, hostHits uint64
	need := 0.0
	for _, m := range minutes {
		if m.Capacity > 0 {
			l.Capacity, l.Replica = m.Capacity, m.SmallestCapacity
		}
		if m.Held == 0 && m.QueriedTokens == 0 && m.PeakQueued == 0 {
			continue
		}
		l.Minutes++
		l.Sessions += m.Sessions
		need += m.Need
		l.Waiting += m.Waiting
		l.PeakSessions, l.PeakNeed = max(l.PeakSessions, m.PeakSessions), max(l.PeakNeed, m.PeakNeed)
		l.LargestSession, l.PeakQueued = max(l.LargestSession, m.LargestSession), max(l.PeakQueued, m.PeakQueued)
		if m.Capacity > 0 && m.PeakNeed > m.Capacity {
			l.Over++
		}
		queried, hits = queried+m.QueriedTokens, hits+m.HitTokens
		hostQueried, hostHits = hostQueried+m.HostQueriedTokens, hostHits+m.HostHitTokens
		l.Preemptions += m.Preemptions
	}
	if l.Minutes == 0 {
		return l
	}
	if l.Sessions > 0 {
		l.SessionTokens = int(need / l.Sessions)
	}
	n := float64(l.Minutes)
	l.Sessions, l.Need, l.Waiting = l.Sessions/n, int(need/n), l.Waiting/n
	l.HitRate, l.HostHitRate = share(hits, queried), share(hostHits, hostQueried)
	return l
}

// Now makes a Load of this moment: of a model's replicas with figures, and the
// conversations of the last two minutes.
func Now(replicas []control.Replica) Load {
	l := Load{Minutes: 1}
	for _, r := range replicas {
		if r.Engine == nil || r.Engine.KVCapacityTokens == 0 {
			continue
		}
		l.Need += r.SessionTokens2m
		l.PeakSessions += r.Sessions2m
		l.Capacity += r.Engine.KVCapacityTokens
		if l.Replica == 0 || r.Engine.KVCapacityTokens < l.Replica {
			l.Replica = r.Engine.KVCapacityTokens
		}
	}
	l.PeakNeed, l.Sessions = l.Need, float64(l.PeakSessions)
	if l.PeakSessions > 0 {
		l.SessionTokens = l.Need / l.PeakSessions
	}
	return l
}

func share(part, of uint64) *float64 {
	if of == 0 {
		return nil
	}
	s := float64(min(part, of)) / float64(of)
	return &s
}

// Fits is how many conversations of the mean size the KV cache holds; 0 = not
// known.
func (l Load) Fits() int {
	if l.SessionTokens == 0 {
		return 0
	}
	return l.Capacity / l.SessionTokens
}
