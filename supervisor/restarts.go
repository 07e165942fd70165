package supervisor

// RestartCause is why an engine was started anew, in the few words that a counter can carry. Diagnosis has the many.
type RestartCause string

// The causes of restarts.
const (
	RestartOrder RestartCause = "order" // somebody asked for it, or for a start after a failure
	RestartStart RestartCause = "start" // the engine before ended, or was given up, without having served
	RestartCrash RestartCause = "crash" // it ended, or its core died, after it had served
	RestartHang  RestartCause = "hang"  // it held work, made no progress and was ended for it
)

// RestartCounts counts engine starts after the first one since warden started, by cause.
type RestartCounts struct{ Order, Start, Crash, Hang int }

// All calls yield with every cause, also with those that have not happened.
func (c RestartCounts) All(yield func(RestartCause, int) bool) {
	_ = yield(RestartOrder, c.Order) && yield(RestartStart, c.Start) && yield(RestartCrash, c.Crash) && yield(RestartHang, c.Hang)
}

// Add counts one.
func (c *RestartCounts) Add(cause RestartCause) {
	switch cause {
	case RestartOrder:
		c.Order++
	case RestartStart:
		c.Start++
	case RestartCrash:
		c.Crash++
	case RestartHang:
		c.Hang++
	}
}
