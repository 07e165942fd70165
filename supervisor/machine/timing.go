package machine

import (
	"cmp"
	"time"
)

// Timing holds the durations a Machine decides by. A zero field takes the value of DefaultTiming.
type Timing struct {
	StartSilence time.Duration // a start without progress in its log for this long has failed

	Grace     time.Duration // from SIGTERM to the main process until the group gets it
	GraceDead time.Duration // the same for an engine that did not become ready
	StopLimit time.Duration // an order to end a tree without any answer for this long is repeated as a kill

	BackoffBase time.Duration // first delay after a failure; doubles each time, with full jitter
	BackoffMax  time.Duration
	StableAfter time.Duration // ready for this long forgives earlier failures
	FailWindow  time.Duration // FailLimit failures within this park the replica
}

// Counts and times that the rules use; they are not tuned together with the durations.
const (
	FailLimit  = 5                // failures within FailWindow park a replica
	AsideDrain = 30 * time.Second // what a replica holds may finish for this long when its GPU is set aside

	samePermanent = 2 // identical permanent causes in a row park it
	killOrders    = 3 // how often a kill is repeated, StopLimit apart, before a replica counts as stuck
)

// DefaultTiming returns the production values. Loads take 30-120 s, so back-off stays near them; vLLM answers SIGTERM
// within a second unless it drains.
func DefaultTiming() Timing {
	return Timing{
		StartSilence: 30 * time.Minute,
		Grace:        10 * time.Second,
		GraceDead:    2 * time.Second,
		StopLimit:    20 * time.Second,
		BackoffBase:  time.Second,
		BackoffMax:   60 * time.Second,
		StableAfter:  10 * time.Minute,
		FailWindow:   15 * time.Minute,
	}
}

func (t Timing) withDefaults() Timing {
	d := DefaultTiming()
	t.StartSilence = cmp.Or(t.StartSilence, d.StartSilence)
	t.Grace = cmp.Or(t.Grace, d.Grace)
	t.GraceDead = cmp.Or(t.GraceDead, d.GraceDead)
	t.StopLimit = cmp.Or(t.StopLimit, d.StopLimit)
	t.BackoffBase = cmp.Or(t.BackoffBase, d.BackoffBase)
	t.BackoffMax = cmp.Or(t.BackoffMax, d.BackoffMax)
	t.StableAfter = cmp.Or(t.StableAfter, d.StableAfter)
	t.FailWindow = cmp.Or(t.FailWindow, d.FailWindow)
	return t
}
