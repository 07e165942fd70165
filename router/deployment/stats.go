package deployment

import (
	"cmp"
	"strconv"
	"time"

	"github.com/lm-warden/warden/router/breaks"
	"github.com/lm-warden/warden/router/figures"
	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

// stats are the figures of one model, guarded by its deployment's lock.
type stats struct {
	since        time.Time
	replicas     map[ReplicaID]*replicaStats
	sessionsSeen uint64
	queued       uint64                    // turns that had to wait
	refused      uint64                    // turns that got no place
	retried      uint64                    // attempts that failed unseen and were made again
	resent       uint64                    // requests that were ended for a later copy of them
	breaks       map[identity.Cause]uint64 // conversations whose prefix broke, by cause
}

// replicaStats are those of one replica.
type replicaStats struct {
	*figures.Replica
	placements map[placement.Reason]uint64
}

func newStats(now time.Time) *stats {
	return &stats{since: now, replicas: map[ReplicaID]*replicaStats{}, breaks: map[identity.Cause]uint64{}}
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
func (d *Deployment) account(t *Turn, served *Upstream, rec *record.Record) {
	if t.talk != nil {
		t.talk.finished(rec)
	}
	if served == nil {
		return
	}
	r := d.stats.of(served.ID)
	r.Ended(rec.Ended, (rec.Failed || rec.Status >= 500) && rec.Cause != record.CauseOwnLimit)
	if measured := rec.Usage.PromptTokens >= 0; measured || !rec.FirstToken.IsZero() && t.class != identity.Auxiliary {
		r.Used(rec.Ended, rec.Usage, t.Estimate)
	}
	if rec.Stream && !rec.FirstToken.IsZero() {
		r.FirstToken(rec.FirstToken, rec.FirstToken.Sub(rec.Arrived))
	}
	for _, id := range rec.Stored {
		d.pins.Put(identity.PinKey(rec.KeyID, id).String(), pin{served.ID, served.Generation})
	}
	d.diagnose(t, served, rec)
}

// diagnose looks for a prefix that stopped matching, and tells of it.
func (d *Deployment) diagnose(t *Turn, served *Upstream, rec *record.Record) {
	if t.talk == nil {
		return
	}
	found, say := d.breaks.Ended(&t.talk.past, breaks.Turn{
		Client: t.client, Same: t.same, Turns: t.turns, Folded: t.folded,
		Replica: string(served.ID), Generation: served.Generation,
		Believed: t.believed, Bounded: served.facts.KVCapacityTokens > 0,
		Good: rec.Ending() == identity.Done, Prompt: rec.Usage.PromptTokens, Cached: rec.Usage.CachedTokens,
	}, rec.Ended)
	if found == nil {
		return
	}
	d.stats.breaks[found.Cause]++
	d.opts.Metrics.Broke(d.Alias, found.Cause)
	var subject string
	switch session := "session " + t.Key.Short(); say {
	case breaks.Conversation:
		subject = session
	case breaks.Client:
		subject = "conversations of " + cmp.Or(t.client, "this client") + " break one after the other: " + session
	default:
		return
	}
	d.tell("prefix_break", served.ID, found.Sentence(subject), map[string]string{
		"session": t.Key.Short(), "client": t.client, "cause": string(found.Cause), "fix": found.Fix,
		"allowed": strconv.Itoa(found.Allowed), "cached": strconv.Itoa(found.Cached),
	})
}
