// Package wire is what the simulated engine's APIs have in common on the wire:
// JSON bodies read and written as vLLM's framework does, its errors, and event
// streams with the ways to break them off.
//
// Reading order:
//
//	error.go    an error and its shape; errors with texts of vLLM
//	body.go     bodies in, bodies out
//	events.go   server-sent events, and where they end too early
package wire
