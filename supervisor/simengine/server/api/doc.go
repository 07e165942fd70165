// Package api is what stands between the engine and the APIs it is asked
// through. A body of an API comes down to tasks, which the engine works off;
// their answers grow token by token, and the API puts them into its own shapes,
// whole or as a stream. The APIs themselves are packages openai and anthropic;
// the engine that drives them is package server.
//
// Reading order:
//
//	api.go       Request, Reply, Stream: what an API does, and when
//	task.go      what is asked of the engine
//	answer.go    an answer as it grows
//	parts.go     its parts, for streams that open and close them
//	settings.go  what of the engine's options shows in answers
package api
