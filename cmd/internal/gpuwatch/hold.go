package gpuwatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/control"
)

// How often the driver is asked by a new program. Each costs some 50 ms of a
// core, and a driver that refuses everything is best left alone.
const (
	holdEvery   = 30 * time.Second // while all is well: a banner before the first engine dies
	heldEvery   = 5 * time.Second  // while starts are held: so late is their end noticed
	silentHold  = 2 * time.Minute  // a hold outlasts a driver that gives no answer for so long
	holdFreshBy = time.Second      // several replicas that start together share one look
)

// startHold knows whether the driver would refuse every engine, as it does
// between an upgrade of its library and the reboot. What runs does not notice,
// so only a program that starts anew can tell: probe.
type startHold struct {
	probe func(context.Context) error
	tell  func(began bool, h control.Hold) // of the beginning and the end of a hold

	turn chan struct{} // held by whoever probes
	soon chan struct{}

	mu    sync.Mutex
	asked time.Time
	heard time.Time     // when the driver last answered, whatever it said
	hold  *control.Hold // nil = engines can start; never changed, only replaced
}

func newStartHold(probe func(context.Context) error, tell func(bool, control.Hold)) *startHold {
	return &startHold{probe: probe, tell: tell, turn: make(chan struct{}, 1), soon: make(chan struct{}, 1)}
}

// why answers keep.Options.Hold.
func (s *startHold) why(ctx context.Context, _ []string) string {
	h := s.look(ctx)
	if h == nil {
		return ""
	}
	text := "no engine can start: " + h.Cause
	if h.Fix != "" {
		text += "; " + h.Fix
	}
	return text
}

// look probes, unless somebody just did.
func (s *startHold) look(ctx context.Context) *control.Hold {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return s.latest()
	}
	if s.fresh() {
		return s.latest()
	}
	err := s.probe(ctx)
	if ctx.Err() != nil {
		return s.latest() // it was the asker who gave up
	}
	s.learn(err)
	return s.latest()
}

func (s *startHold) fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := holdFreshBy
	if s.hold != nil {
		limit = heldEvery
	}
	return !s.asked.IsZero() && time.Since(s.asked) < limit
}

func (s *startHold) learn(err error) {
	s.mu.Lock()
	before := s.hold
	s.asked = time.Now()
	if err == nil || answered(err) {
		s.heard = s.asked
	} else if before != nil && s.asked.Sub(s.heard) < silentHold {
		s.mu.Unlock() // nothing was learned: what it said last stands
		return
	}
	s.hold = nil
	if gpu.StartsFail(err) {
		what, fix := gpu.Describe(err)
		s.hold = &control.Hold{Cause: what, Fix: fix, Since: s.asked}
		if before != nil {
			s.hold.Since = before.Since
		}
	}
	after := s.hold
	s.mu.Unlock()
	switch {
	case before == nil && after != nil:
		s.tell(true, *after)
	case before != nil && after == nil:
		s.tell(false, *before)
	}
}

// answered says whether an error is the driver's own word.
func answered(err error) bool {
	e, ok := errors.AsType[*gpu.NVMLError](err)
	return ok && e.Code != gpu.CodeNoAnswer
}

// latest is what the last probe found.
func (s *startHold) latest() *control.Hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold
}

// hurry asks for a look now: something is wrong with the driver.
func (s *startHold) hurry() {
	select {
	case s.soon <- struct{}{}:
	default:
	}
}

// watch looks every now and then, until ctx ends.
func (s *startHold) watch(ctx context.Context) {
	timer := time.NewTimer(holdEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.soon:
		case <-timer.C:
		}
		next := holdEvery
		if s.look(ctx) != nil {
			next = heldEvery
		}
		timer.Reset(next)
	}
}
