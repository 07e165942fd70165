package core

import (
	"slices"
	"time"
)

// commit applies a step that lasts from start to end: requests whose whole sequence is
// computed emit one token, finished ones give their blocks back.
func (s *Scheduler) commit(b *batch, start, end time.Time) []TokenEvent {
	events := make([]TokenEvent, 0, len(b.items))
	for _, it := range b.items {
		r := it.r
		if r.timing.Scheduled.IsZero() {
			r.timing.Scheduled = start
			if start.Before(r.timing.Queued) { // a driver that catches up dates its steps back
				r.timing.Scheduled = r.timing.Queued
			}
		}
		s.store(r, it.tokens)
		r.computed += it.tokens
		if r.computed == r.length() {
			events = append(events, s.emit(r, end))
		}
	}
	return events
}

// store copies the prompt blocks that this step completes to the host tier.
func (s *Scheduler) store(r *request, tokens int) {
	from := r.computed / s.cfg.BlockSize
	to := min(r.computed+tokens, len(r.Prompt)) / s.cfg.BlockSize
	for i := from; i < to; i++ {
		s.host.store(r.hashes[i])
	}
}

func (s *Scheduler) emit(r *request, end time.Time) TokenEvent {
	ev := TokenEvent{ID: r.ID, Token: r.Answer[r.emitted], Index: r.emitted}
	if r.emitted == 0 {
		cached := min(r.registered*s.cfg.BlockSize, len(r.Prompt))
		r.prefill.Created = max(cached-r.prefill.Cached(), 0)
		prefill := r.prefill
		ev.Prefill = &prefill
		r.timing.First = end
	}
	r.emitted++
	r.timing.Last = end
	s.hash.extend(r, s.cfg.BlockSize)
	if r.emitted == r.limit {
		ev.Reason = Length
		if r.limit == len(r.Answer) && !r.Endless {
			ev.Reason = Stop
		}
		timing := r.timing
		ev.Timing = &timing
		s.running = slices.DeleteFunc(s.running, func(x *request) bool { return x == r })
		s.drop(r)
	}
	return ev
}
