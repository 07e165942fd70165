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
// Reader's path, in the order a turn takes it:
//
//	turn.go      what a turn is, why it went where it went, how it ended
//	event.go     what the Placer is told
//	action.go    what it answers
//	placer.go    Step: the book of turns in flight, exactly-once accounting
//	place.go     arrival, retry, dispatch, the pump that empties the queue
//	replica.go   the ledger of one engine process: what we have placed on it
//	session.go   one conversation; table.go the bounded table of them
//	cache.go     what each engine's prefix cache holds, as far as we can know
//	root.go      the prefix that conversations of one agent share
//	measure.go   what is learned from outcomes: token ratio, growth, rates
//	queue.go     turns that wait, in order
//	choose.go    the one comparison of loads; seat.go early homes, looked at again
//	balance.go affinity.go admission.go   the three policies
//	residents.go residency.go rotation.go hosttier.go   parts of admission
//	survival/    how likely a conversation that is away comes back in time
//	fair.go      the order of waiting turns of several users
//	view.go      a copy of everything for people to look at
//	saved.go     what is kept of conversations over a restart
//
// # What is exact and what is believed
//
// Held counts and the queue are exact: they are our own acts. Tokens are exact
// once an engine has reported them and estimates before. What a prefix cache
// holds is belief, kept by the engine's own rule (least recently used first,
// the end of a conversation before its beginning) and corrected by the cached
// token count that comes back with every answer.
package placement
