// Package metrics is what GET /metrics answers: one scrape target for warden,
// its replicas, the GPUs and the engines.
//
// Reading order:
//
//	exporter.go   Exporter: the handler, and what it is put together from
//	daemon.go     warden_*: replicas and what the daemon knows of itself
//	gpus.go       warden_gpu_*
//	wayin.go      keys and certificate that go bad
//	engines.go    the engines' own series, with a replica label
//	relabel.go    one engine's text -> families, bounded
//
// The router counts requests itself (package router) and is registered here.
//
// # Labels
//
// A label's values are names from the configuration (model, replica, gpu) or
// one of a few words (state, cause, phase, reason, file). Nothing that a client
// sends becomes a label: no session, no path, no model name of its own. What an
// engine says is cut off at a number of samples, see maxSamples.
package metrics
