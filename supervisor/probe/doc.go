// Package probe asks a running engine how it is, and says what follows from its answers.
//
// prober.go asks, over HTTP: /health, the served name, one real request, the counters. health.go draws the conclusions,
// as events for the machine. Two questions are kept apart there, because one answer for both gives either silent hangs
// or crash loops: may new requests go to the engine (HealthTracker and FailureTracker: seconds), and must it be restarted
// (StallTracker: minutes). All three are pure. Who asks when is package keep's to say (watch.go).
package probe
