package deployment

import (
	"context"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

// Turn is one request's place in a deployment: waiting, placed, or over.
type Turn struct {
	Key      identity.Key // of its conversation; zero for none
	Estimate int          // prompt tokens, from the length of the text
	Arrived  time.Time

	d      *Deployment
	id     uint64
	client string
	class  identity.Class
	turns  int // in the request
	same   identity.Resolution
	talk   *conversation // nil for turns without conversation
	hold   time.Duration // how long it may wait in all
	again  bool          // it has been placed before
	body   uint64        // fingerprint of the request body
	drop   func()        // ends the request, while it is in talk.open

	// answers takes the one Dispatch or Reject that is due at a time.
	answers chan placement.Action

	// Guarded by the deployment's lock.
	asked    time.Time // for the place it has or waits for
	up       *Upstream // where it is placed; nil while waiting and when over
	decoding bool      // its first content byte has come
	believed int       // prompt tokens that placement takes for cached there
	refused  bool      // a Reject was given out: placement has forgotten it
	folded   bool      // its system turns were rewritten
	dropped  bool      // ended for a later copy of the same request
	over     bool
}

// Place is where a turn has been sent.
type Place struct {
	placement.Dispatch
	Up *Upstream
}

// maxHold is how long a request is held in all, unless its model says
// otherwise. Placement bounds each wait; this bounds their sum when a replica
// breaks off before its first byte and the request has to wait once more.
const maxHold = 240 * time.Second

// lateRetry is when to ask again after such a request was refused: replicas
// broke off lately, so not at once.
const lateRetry = 15 * time.Second

// Wait returns where the turn goes, why it is refused, or ctx's error; the
// turn is then over.
func (t *Turn) Wait(ctx context.Context) (*Place, *placement.Reject, error) {
	var late <-chan time.Time
	if t.again {
		late = time.After(time.Until(t.Arrived.Add(t.hold)))
	}
	select {
	case a := <-t.answers:
		if reject, ok := a.(placement.Reject); ok {
			return nil, &reject, nil
		}
		dispatch := a.(placement.Dispatch)
		return &Place{dispatch, t.d.upstreamOf(t)}, nil, nil
	case <-late:
		return nil, &placement.Reject{TurnID: t.id, Why: placement.WhyTimeout, RetryAfter: lateRetry}, nil
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// Retry gives the place back after a failure that the client has not seen,
// and asks for another one.
func (t *Turn) Retry() {
	t.again = true
	d := t.d
	d.mu.Lock()
	defer d.unlock()
	failed := t.up
	if failed == nil {
		return
	}
	d.unplace(t)
	d.stats.retried++
	t.asked = time.Now()
	d.step(placement.Retry{TurnID: t.id, Failed: failed.ID})
	d.refuseHopeless()
}

// Model returns a copy of the model's settings, as they are now.
func (t *Turn) Model() Model { return t.d.Model() }

// Failed reports the replica that broke under the turn, and takes it out of
// placement for a moment when it could not even be connected to.
func (t *Turn) Failed(u *Upstream, err error) { t.d.failed(u, err) }

// FirstToken tells placement that the prefill is over.
func (t *Turn) FirstToken() {
	d := t.d
	d.mu.Lock()
	defer d.unlock()
	if t.up == nil || t.decoding {
		return
	}
	t.decoding = true
	if t.talk != nil {
		t.talk.prefill--
		t.talk.decode++
	}
	d.step(placement.FirstByte{TurnID: t.id})
}

// End takes the turn out, wherever it is. Later calls do nothing.
func (t *Turn) End(rec *record.Record) {
	d := t.d
	d.mu.Lock()
	defer d.unlock()
	if t.over {
		return
	}
	t.over = true
	delete(d.turns, t.id)
	served := t.up
	if served == nil {
		if !t.refused {
			d.step(placement.Cancel{TurnID: t.id})
		}
	} else {
		d.unplace(t)
		d.step(placement.Finish{TurnID: t.id, Outcome: rec.Outcome()})
	}
	if t.talk != nil {
		t.talk.open = slices.DeleteFunc(t.talk.open, func(o *Turn) bool { return o == t })
	}
	d.index.Finish(t.same, rec.Ending(), rec.Ended)
	d.account(t, served, rec)
}
