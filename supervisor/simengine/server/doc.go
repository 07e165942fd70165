// Package server is the simulated engine's HTTP face: vLLM's endpoints, wire
// shapes, metrics and failures over the scheduler of package core.
//
// A Server is an http.Handler plus a Run loop. All its waiting is timers and
// channels, so it works unchanged in the virtual time of testing/synctest over
// in-memory connections. Everything it answers says SIMULATED.
//
// Reading order of one request:
//
//	server.go      routes, authentication
//	chat.go        one file per API: chat, completion, messages, responses,
//	               embeddings, tokenize: body in, wire shape out
//	task.go        what all generating APIs share: limits, script, faults
//	engine.go      the loop that steps the scheduler and hands tokens out
//	sse.go         event streams and the ways to break them off
//
// and beside them errors.go (vLLM's error bodies) and status.go (what needs no
// engine).
//
// The shapes follow the source of vLLM 0.32.0; Options.Dialect selects an older
// version where that matters to a router.
package server
