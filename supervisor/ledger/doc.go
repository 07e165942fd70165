// Package ledger is what outlives a run of warden, in one file of the state directory: the generation of each replica, so
// that a new engine is never taken for the one before, how long the last successful start of each model took, for the
// estimate on the screen (ledger.go), and the GPUs that are set aside (aside.go).
//
// Nothing in a running warden depends on the file: a ledger that cannot be written costs only the next one something.
package ledger
