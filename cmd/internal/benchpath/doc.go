// Package benchpath measures what a proxy costs in the path of requests: the
// same work through no proxy, warden, HAProxy, nginx, vllm-router and smg, on
// the same engines in the same minutes.
//
// Reading order:
//
//	run.go         Options, Run: what is measured in which order
//	copy.go        the floor: a process that copies bytes and does nothing else
//	work.go        the rows: streams at a pace, fast ones, bodies
//	arms.go        what is compared, and what of it is counted
//	cell.go        one measurement: clients, the window, the proxy's counters
//	caller.go      one client: a connection and a clock
//	events.go      when each event of a stream arrived
//	body.go        bodies as agents send them, of an exact size
//	engine.go      the engine: answers at once, stamps each event; script.go:
//	               what it is asked to answer; vllmcommand.go: its command line
//	clock.go       the clock that engine and clients share
//	figures.go     percentiles, medians, ratios
//	report.go      the medians, JSON; tables.go: Markdown
//	bars.go        what warden holds itself to
//
// # What is fair
//
// Every proxy is started anew each round and stays until its end; under each
// work the arms take turns, the next round in the other order. All share the
// machine's cores with the clients and the engines, so times are those of a
// busy machine, the same for all. HAProxy, nginx and warden reach the engines
// over unix sockets, the cheapest way they know; the others know only TCP.
// Peers run with the settings in which they keep conversations together and log
// least; warden runs as it is shipped.
//
// # CPU time
//
// It is read from the processes' CPU clocks around a window, less what the same
// proxy took in two seconds of rest. The window of streams at a pace opens when
// all run and closes before the first ends, so that it holds events and nothing
// else. When a machine cannot keep pace, events come in bunches and each costs
// less; bars are therefore judged under the largest load with which every arm
// kept pace.
package benchpath
