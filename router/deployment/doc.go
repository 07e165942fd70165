// Package deployment is one model and its replicas: which of them a request goes
// to, what runs on each, and what is remembered of conversations. It sends nothing
// itself: the router brings requests and carries them to their places.
//
// Reading order, along a turn's life:
//
//	deployment.go    Deployment, Arrive: choice and reservation under one lock,
//	                 and the events that placement (placement/) is told
//	turn.go          waiting for a place, trying again, the end, exactly once
//	resend.go        a copy of a request that still runs for nobody
//	upstream.go      one process of a replica; the connections to it: link/
//	stats.go         what a turn that has ended is booked as
//	conversation.go  what people want to see of a session
//
// and beside it:
//
//	settings.go  Model: what a user may choose, and change live
//	replicas.go  what the supervisor tells us about replicas and engines
//	fold.go      whether system turns may be rewritten
//	snapshot.go  a copy of it all for screens
//	sessions.go  what outlives warden
package deployment
