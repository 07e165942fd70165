package benchpath

import (
	"time"

	"golang.org/x/sys/unix"
)

// clock is CLOCK_MONOTONIC, which all processes of the machine share: an engine
// stamps its events with it and the load tool subtracts. Reading the kernel's
// clock once and Go's from then on costs no system call an event.
type clock struct {
	base  int64 // nanoseconds at began
	began time.Time
}

func newClock() (clock, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return clock{}, err
	}
	return clock{base: t.Nano(), began: time.Now()}, nil
}

// now is in nanoseconds.
func (c clock) now() int64 { return c.base + int64(time.Since(c.began)) }
