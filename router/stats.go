package router

import (
	"time"

	"github.com/lm-warden/warden/router/figures"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
)

// stats are the figures of one model, guarded by its deployment's lock.
type stats struct {
	since        time.Time
	replicas     map[ReplicaID]*replicaStats
	sessionsSeen uint64
	queued       uint64 // turns that had to wait
	refused      uint64 // turns that got no place
	retried      uint64 // attempts that failed unseen and were made again
}

// replicaStats are those of one replica.
type replicaStats struct {
	*figures.Replica
	placements map[placement.Reason]uint64
}

func newStats(now time.Time) *stats {
	return &stats{since: now, replicas: map[ReplicaID]*replicaStats{}}
}

// of returns the figures of one replica. Their number is bounded by that of
// the replicas that ever were: ids are reused.
func (s *stats) of(id ReplicaID) *replicaStats {
	r := s.replicas[id]
	if r == nil {
		r = &replicaStats{figures.New(s.since), map[placement.Reason]uint64{}}
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
	r.Ended(rec.Ended, rec.Failed || rec.Status >= 500)
	if measured := rec.Usage.PromptTokens >= 0; measured || !rec.FirstToken.IsZero() && t.who.Class != identity.Auxiliary {
		r.Used(rec.Ended, rec.Usage, t.estimate)
	}
	if rec.Stream && !rec.FirstToken.IsZero() {
		r.FirstToken(rec.FirstToken, rec.FirstToken.Sub(rec.Arrived))
	}
	if rec.responseID != "" {
		d.pins.Put(identity.PinKey(rec.KeyID, rec.responseID).String(), pin{served.id, served.generation})
	}
}
