// Package launch starts engine processes on this machine, each under a shim (package shim) of its own, so that engines
// outlive warden: launcher.go starts them, finds those that an earlier warden started, and reads their logs; process.go is
// one engine seen from warden, and stands in for a shim that died or does not answer.
//
// The tests run real shims and real processes; package keep has more of them, with a supervisor on top (real_test.go).
package launch
