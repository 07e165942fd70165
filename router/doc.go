// Package router is the data path: one HTTP request of an agent becomes one
// request to one replica, and the answer is copied back as it comes.
//
// Reader's path, in the order a request takes it:
//
//	router.go      Options, New, ServeHTTP, Drain, Close
//	keys.go        who may ask at all; the rest of that is in gate/
//	routes.go      the closed list of methods and paths; local answers
//	body.go        the body, read once into a payload/
//	models.go      which model a name means
//	exchange.go    one request from here to its last byte, step by step
//	deployment.go  the critical section: choice and reservation under one lock
//	turn.go        waiting for a place, trying again, the end, exactly once
//	upstream.go    one process of a replica; the connections to it: link/
//	attempt.go     one try on one replica: what failed, and for whom to see
//	relay.go       copying the answer: flushed at once, never invented
//	refusal.go     what a client is told when it gets no answer
//
// and beside the path:
//
//	replicas.go    what the supervisor tells us about replicas and engines
//	stats.go       figures per replica and model; conversation.go per session
//	snapshot.go    a copy of it all for screens; metrics.go for Prometheus
//
// The folders below hold what needs no connection: identity (which conversation
// is this), placement (where does it go), dialect (what the APIs differ in),
// gate (which requests and headers may pass), payload (a body in memory), link
// (connections to one process), figures and window (what a replica has done, in
// total and lately), lru and names (a bounded map, and help with typing errors).
//
// # What a client can rely on
//
// Until the first byte of an answer has been sent, a replica's death costs it
// nothing but time: the request is tried on another one. After that it sees
// the truth: an error event in the API's own form where one can still be read,
// then a broken connection, never a finish that the engine did not write.
//
// # Two lifetimes
//
// A request lives as long as its client stays connected and the Router is not
// closed; its cancellation reaches the engine at once. The Router itself
// outlives all of them: Drain waits for the last, Close cuts them.
package router
