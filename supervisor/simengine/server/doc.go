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
//	generate.go    a body becomes tasks, their answers become a reply
//	start.go       a task's way into the engine: limits, script, faults
//	engine.go      the loop that steps the scheduler and hands tokens out
//
// and beside them status.go (what needs no engine). What differs from API to
// API is below:
//
//	api            the interface between engine and APIs, and what all share
//	openai         chat, completions, responses, embeddings, tokenize
//	anthropic      messages, count_tokens
//	wire           bodies, errors, event streams and the ways to break them off
//
// An API is a body with a Job and a Reply (api.Request); a new one is a type of
// its own and a line in routes.
//
// The shapes follow the source of vLLM 0.32.0; Options.Dialect selects an older
// version where that matters to a router.
package server
