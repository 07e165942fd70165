// Package simengine is a process that looks like `vllm serve` from the outside
// and computes nothing: the engine of `warden up --demo` and of the tests. It
// takes vLLM's flags, prints its log lines, serves its HTTP APIs and metrics,
// dies like it, and fails on demand. Everything it answers says SIMULATED.
//
// Reading order:
//
//	main.go       the life of the process: load, serve, end
//	flags.go      vLLM's command line (vllmflags.txt: its flags as data)
//	config.go     what the flags decide
//	startup.go    the log lines of a start, as data
//	listen.go     bound early, listening late
//	tree.go       EngineCore, the child process
//
// and its sub-packages, which do not know of processes:
//
//	server        HTTP and streams, each family of APIs a package below; also
//	              usable in process and in virtual time
//	fault         what goes wrong on demand
//	metrics       vLLM's /metrics
//	prompt        tokenizer, chat template, answers, markers
//	core          scheduler, prefix cache, step times
//
// # Its own flags
//
//	--sim-profile NAME       machine and model: demo (default), a4000-qwen3-4b,
//	                         cpu-heavy, instant
//	--sim-load 3s            how long the start takes
//	--sim-speed 2            twice as fast as the profile
//	--sim-seed 1             other answers (also --seed)
//	--sim-words 40           mean length of an answer
//	--sim-tokenizer bytes    one token per byte, like the built-in random model
//	--sim-dialect 0.26       wire details of an older vLLM
//	--sim-tree SHAPE         group (default), setsid, double-fork, none
//	--sim-orphan-limit 10m   life of EngineCore without its API server
//	--sim-fault KEY=VALUE    see fault.Set; may be repeated
//
// Faults are also changed while it runs, by POST /sim/fault on its own socket.
// Single answers are steered by markers in the prompt, see prompt.Script.
package simengine
