// Package supervisor holds the words in which warden speaks of its replicas, and its sub-packages keep them alive: one
// engine process per replica, restarted whenever it ends, hangs or dies.
//
// # Reading order
//
// The words first: spec.go (what one replica is), state.go (where it is in its life), engine.go (what an inference server
// has to tell: Engine), launcher.go (what starts and ends its processes: Launcher, Process), replica.go (all that is known
// of one). Then one replica, from the rules to the processes:
//
//	machine   the life of one replica as a pure function, with its table: Step(event, now) -> effects
//	keep      the goroutine that feeds a machine and does what it says, what a start waits for, all replicas together
//	probe     what a running engine is asked, and what follows from the answers
//	ledger    what outlives a run of warden: generations, start times, GPUs that are set aside
//	launch    the Launcher of this machine: one shim per engine
//	shim      the process between warden and one engine
//	vllm      the Engine: how vLLM is started, and what it says
//
// and what stands around them: events (what happened, for everybody), control (the orders, over a unix socket), simengine
// (an engine without a GPU).
//
// The words import nothing, so whoever only speaks of replicas (vllm, the exporter, the screen's adapter) depends on
// nothing that runs. machine is pure, so are the conclusions of probe; clocks, locks and processes are in keep and launch.
//
// # Rules
//
// Any exit while the replica is wanted is a failure, also with code 0: vLLM exits 0 when its core dies.
// "Stopped" means that no process of the engine's tree is alive; a start also waits for the GPU's memory, and while the
// driver refuses every start, or no disk has room for one, none is tried and no healthy engine is ended
// (keep.Options.Hold). A broken GPU costs its own replica only (keep.Supervisor.SetAside).
// Whether requests may go to a replica is decided in seconds, whether it is restarted in minutes: by lack of progress
// while work is held, and an unanswered test request. A stall of 60 s restarts nothing.
// The log is read for the screen and for the diagnosis of an end, never to decide that an engine is ready.
package supervisor
