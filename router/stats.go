package router

import (
	"time"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/window"
)

// Fields of the token windows.
const (
	cachedTokens = iota
	computedTokens
	outputTokens
	requestCount
)

// stats are the figures of one model, guarded by its deployment's lock. They
// are kept per replica and survive restarts of its process.
type stats struct {
	since        time.Time
	replicas     map[ReplicaID]*replicaStats
	sessionsSeen uint64
	queued       uint64 // turns that had to wait
	refused      uint64 // turns that got no place
	retried      uint64 // attempts that failed unseen and were made again
}

// replicaStats are the figures of one replica.
type replicaStats struct {
	requests, errors uint64
	cached, computed uint64 // prompt tokens
	output           uint64
	placements       map[placement.Reason]uint64
	recent           *window.Sums      // 60 s by the second
	hour             *window.Sums      // 60 min by the minute
	ttft             *window.Durations // 60 s by 5 s
}

func newStats(now time.Time) *stats {
	return &stats{since: now, replicas: map[ReplicaID]*replicaStats{}}
}

// of returns the figures of one replica. Their number is bounded by that of
// the replicas that ever were: ids are reused.
func (s *stats) of(id ReplicaID) *replicaStats {
	r := s.replicas[id]
	if r == nil {
		r = &replicaStats{
			placements: map[placement.Reason]uint64{},
			recent:     window.NewSums(s.since, time.Second, 60),
			hour:       window.NewSums(s.since, time.Minute, 60),
			ttft:       window.NewDurations(s.since, 5*time.Second, 12),
		}
		s.replicas[id] = r
	}
	return r
}

// account books a turn that has ended on served (nil: it never got a place).
func (d *deployment) account(t *turn, served *upstream, rec *Record) {
	if t.talk != nil {
		t.talk.finished(rec)
	}
	if served == nil {
		return
	}
	r := d.stats.of(served.id)
	r.requests++
	r.recent.Add(rec.Ended, requestCount, 1)
	if rec.Failed || rec.Status >= 500 {
		r.errors++
	}
	if measured := rec.Usage.PromptTokens >= 0; measured || !rec.FirstToken.IsZero() && t.who.Class != identity.Auxiliary {
		r.tokens(rec.Ended, rec.Usage, t.estimate)
	}
	if rec.Stream && !rec.FirstToken.IsZero() {
		r.ttft.Add(rec.FirstToken, rec.FirstToken.Sub(rec.Arrived))
	}
	if rec.responseID != "" {
		d.pins.put(identity.PinKey(rec.KeyID, rec.responseID).String(), pin{served.id, served.generation})
	}
}

// tokens books prompt tokens. What an engine did not say was cached counts as
// computed: a claim of hits needs a measurement.
func (r *replicaStats) tokens(now time.Time, u dialect.Usage, estimate int) {
	prompt := u.PromptTokens
	if prompt < 0 {
		prompt = estimate
	}
	cached := min(max(u.CachedTokens, 0), prompt)
	output := max(u.OutputTokens, 0)
	r.cached += uint64(cached)
	r.computed += uint64(prompt - cached)
	r.output += uint64(output)
	for _, w := range []*window.Sums{r.recent, r.hour} {
		w.Add(now, cachedTokens, float64(cached))
		w.Add(now, computedTokens, float64(prompt-cached))
		w.Add(now, outputTokens, float64(output))
	}
}

// cachedShare is the part of the prompt tokens of the last span that came from
// the cache; negative when there were none.
func cachedShare(w *window.Sums, now time.Time, span time.Duration) float64 {
	cached, computed := w.Total(now, span, cachedTokens), w.Total(now, span, computedTokens)
	if cached+computed == 0 {
		return -1
	}
	return cached / (cached + computed)
}
