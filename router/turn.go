package router

import (
	"context"

	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/placement"
)

// turn is one request's place in a deployment: waiting, placed, or over.
type turn struct {
	d        *deployment
	id       uint64
	key      identity.Key // of its conversation; zero for none
	who      identity.Identity
	same     identity.Resolution
	talk     *conversation // nil for turns without conversation
	estimate int           // prompt tokens, from the length of the text

	// answers takes the one Dispatch or Reject that is due at a time.
	answers chan placement.Action

	// Guarded by the deployment's lock.
	up       *upstream // where it is placed; nil while waiting and when over
	decoding bool      // its first content byte has come
	refused  bool      // a Reject was given out: placement has forgotten it
	over     bool
}

// place is where a turn has been sent.
type place struct {
	placement.Dispatch
	up *upstream
}

// wait returns where the turn goes, why it is refused, or ctx's error; the
// turn is then over.
func (t *turn) wait(ctx context.Context) (place, *placement.Reject, error) {
	select {
	case a := <-t.answers:
		if reject, ok := a.(placement.Reject); ok {
			return place{}, &reject, nil
		}
		dispatch := a.(placement.Dispatch)
		return place{dispatch, t.d.upstreamOf(t)}, nil, nil
	case <-ctx.Done():
		return place{}, nil, ctx.Err()
	}
}

// retry gives the place back after a failure that the client has not seen,
// and asks for another one.
func (t *turn) retry() {
	d := t.d
	d.mu.Lock()
	defer d.unlock()
	failed := t.up
	if failed == nil {
		return
	}
	d.unplace(t)
	d.stats.retried++
	d.step(placement.Retry{TurnID: t.id, Failed: failed.id})
	d.refuseHopeless()
}

// firstToken tells placement that the prefill is over.
func (t *turn) firstToken() {
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

// end takes the turn out, wherever it is. Later calls do nothing.
func (t *turn) end(rec *Record) {
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
		d.step(placement.Finish{TurnID: t.id, Outcome: outcome(rec)})
	}
	d.index.Finish(t.same, ending(rec), rec.Ended)
	d.account(t, served, rec)
}

func ending(rec *Record) identity.Ending {
	switch {
	case rec.Aborted:
		return identity.Aborted
	case rec.Failed || rec.Status >= 400:
		return identity.Failed
	}
	return identity.Done
}

func outcome(rec *Record) placement.Outcome {
	return placement.Outcome{
		PromptTokens: max(rec.Usage.PromptTokens, 0),
		OutputTokens: max(rec.Usage.OutputTokens, 0),
		CachedTokens: rec.Usage.CachedTokens,
		FinishClass:  rec.Finish,
		// A refused request has left no trace in the engine.
		Failed:  rec.Failed || rec.Status >= 400,
		Aborted: rec.Aborted,
	}
}
