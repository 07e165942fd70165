package daemon

import (
	"os"
	"runtime"
	"runtime/debug"
)

// A warden copies bytes between sockets, and shares the machine with the
// threads that feed its GPUs. Go uses all processors for that, and each one
// that falls idle first looks for work at all the others. Measured on two cores
// with a router of its own process, CPU time with 2, 16 and 96 of Go's
// processors: 25, 36 and 44 µs an event (64 streams at 50 events/s), 0.19, 0.30
// and 0.31 ms a request with 60 kB.
//
// One would be cheaper still for requests (0.14 ms against 0.16), but a stream's
// events would wait while a body of 8 MB is read (6.4 ms against 3.9 at the
// median, two such clients), so there are two at least. One in sixteen is
// plenty beyond: eight GPUs make some 60,000 events/s, which keep two busy.
const (
	fewestProcessors = 2
	processorShare   = 16
)

// processors is how many a warden uses of those that it may use, by the
// machine's size and the control group's limit. The user's own word, the
// variable GOMAXPROCS, is among these already: it is left alone.
func processors(own string, available int) int {
	if own != "" {
		return available
	}
	return min(available, max(fewestProcessors, available/processorShare))
}

// useFewProcessors holds for the whole process, until restore is called.
func (d *Daemon) useFewProcessors() (restore func()) {
	available := runtime.GOMAXPROCS(0)
	use := processors(os.Getenv("GOMAXPROCS"), available)
	d.log.Debug("processors", "used", use, "available", available)
	if use == available {
		return func() {} // Go goes on following the control group
	}
	runtime.GOMAXPROCS(use)
	return func() { runtime.GOMAXPROCS(available) }
}

// garbagePercent is how much may be allocated between two collections, in percent
// of what is in use: a warden uses 10 to 30 MB, and each request allocates some
// 20 KB. In single runs that took turns on two cores, a request of 60 kB cost 1.94
// and 1.96 times HAProxy's CPU time with Go's own 100, 1.75 and 1.81 times with
// 200; runs differ by as much. A quiet stream holds as much memory.
const garbagePercent = 200

// collectLess holds for the whole process, until restore is called. The user's own
// word, the variable GOGC, is left alone.
func collectLess(own string) (restore func()) {
	if own != "" {
		return func() {}
	}
	before := debug.SetGCPercent(garbagePercent)
	return func() { debug.SetGCPercent(before) }
}
