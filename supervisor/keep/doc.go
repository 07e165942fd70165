// Package keep keeps one engine process per replica alive and tells everyone how it is.
//
// Reader's path:
//
//	options.go, timing.go   what it needs from outside
//	replica.go              the goroutine of one replica: feeds a machine (package machine) and does what it says
//	gpugate.go              what a start waits for: the driver, and the GPU's memory
//	start.go                a new engine process, or one that an earlier warden left
//	watch.go                what is asked of a running engine, and when (package probe)
//	startlog.go             what its log tells: the phase of a start, whether it goes on, the last lines
//	output.go               what the world is told: events, copies
//	turns.go                who starts when
//	supervisor.go           all replicas together: Run, orders, Shutdown, Detach
//	aside.go                GPUs that are not used
//
// A replica's goroutine never waits: what may take its time runs beside it and reports to its inbox.
//
// The tests drive a Supervisor in synctest's time over engines without processes (fake_test.go), and again over real
// shims and processes (real_test.go).
package keep
