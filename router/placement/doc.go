// Package placement decides which replica serves a turn. It is one pure
// function of values: Step(event, now) returns the actions to perform. There
// is no clock, lock, goroutine, log or I/O in it, so the router, the
// virtual-time ladder and a replay of yesterday's log run the very same code
// and the same events always give the same actions.
//
// The caller holds one lock around Step. That makes choice and reservation one
// critical section: a turn is counted on its replica before the next decision
// looks at the counts, so a burst spreads instead of herding.
//
// Reader's path. One turn from its arrival to its end:
//
//	turn.go event.go action.go   what a turn is, what the Placer is told, what it answers
//	placer.go    Step: the book of turns, one event after the other
//	place.go     arrival, retry, the pump that empties the queue, dispatch
//	finish.go    first byte and end: everything is counted back, once
//	learn.go     what an outcome teaches: tokens, growth, shared prefixes, rates
//
// Where it goes, by one of three policies, each with its formula on top:
//
//	choose.go    the one comparison of loads; who is eligible
//	balance.go   the least loaded each time
//	affinity.go  home, spill, failover; seat.go early homes, looked at again
//	admission.go home, while the working set fits; admission_hooks.go when it is
//	             told, residency.go who is likely gone, claim.go for whom room is
//	             kept, rotation.go who makes way, hosttier.go what a copy in host
//	             memory changes
//
// Around it: replicas.go new sets of replicas, saved.go what is kept over a
// restart, config.go, and view.go, a copy of everything for people to look at.
//
// What the decisions are made from lies below, each part a package that can be
// read alone:
//
//	ledger/      who lives where: replicas, conversations, shared prefixes, residents
//	shadow/      what a cache holds that nobody can look into
//	queue/       the turns that wait, fair between users
//	estimate/    moving averages, pace, prefill rate
//	survival/    how likely a conversation that is away comes back in time
//	list/        the linked list of ledger and shadow
//
// # What is exact and what is believed
//
// Held counts and the queue are exact: they are our own acts. Tokens are exact
// once an engine has reported them and estimates before. What a prefix cache
// holds is belief, kept by the engine's own rule (least recently used first,
// the end of a conversation before its beginning) and corrected by the cached
// token count that comes back with every answer.
package placement
