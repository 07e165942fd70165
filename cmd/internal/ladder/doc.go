// Package ladder measures placement policies against each other in virtual
// time: closed or open loops of agent conversations over simulated engines, on
// a clock that jumps from event to event. Half an hour of four GPUs takes about
// a second, and the same seed gives the same figures every time. Everything it
// prints is SIMULATED.
//
// A policy is anything with placement's Step; rivals holds other systems' rules
// in that form. The engines are supervisor/simengine/core, the scheduler that
// `warden up --demo` runs. PlayRouted plays a load through everything that
// serves: HTTP clients, the router, the engines' HTTP servers; that it agrees
// with Play is a test.
//
// Reading order:
//
//	workload.go   what the conversations look like
//	client.go     one conversation after the other, turn by turn
//	engine.go     one engine, driven step by step
//	sim.go        the event loop between clients, policy and engines
//	measure.go    from turns to figures, and the check by Little's law
//	cells.go      the fleets and loads that are compared
//	routed.go     the same through the router and HTTP; memnet.go connects them,
//	              routedclient.go talks
//	settings.go   the engines' own settings, varied one at a time
//	bars.go       what admission is held to; knob.go what it can trade
//	report.go     tables and JSON
package ladder
