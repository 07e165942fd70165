// Package vllm is all that warden knows about vLLM: where it is installed, how
// a replica of it is started, what its log lines and metrics mean, and why it
// failed. It starts nothing itself; package launch does.
//
// Reader's path:
//
//	find.go, metadata.go   which vLLM: --vllm, configuration, virtual environment, PATH, managed
//	install.go             the answer, and which versions warden knows; their known holes: advisories.go
//	engine.go              [Engine], the implementation of supervisor.Engine
//	command.go             the command line of one replica
//	flags.go               arguments of the user: what warden owns, what is given already
//	environ.go, hub.go     the environment: a short list, never inherited whole; offline when the weights are here
//	phases.go              log line -> start-up phase, for display only
//	stats.go               /metrics -> supervisor.EngineStats
//	diagnose.go, causes.go last log lines -> cause in words, as a table
//
// Sub-package tune chooses settings for agents' work, with reasons; setup makes
// the installation that warden manages (`warden setup`); tiny is the built-in
// random model.
//
// # Versions
//
// vLLM removes flags about two minor versions after it deprecates them. Warden
// therefore asks the installation's metadata for its version and, when a flag
// that warden could do without is refused all the same (argparse: exit status
// 2, "unrecognized arguments"), remembers that and leaves it out of the next
// start.
//
// # Tests against the real vLLM
//
// testdata/logs and testdata/metrics hold what real runs printed, by version;
// a new version is covered by adding files. With the build tag vllm the tests
// start a real engine on the CPU; they look for it where `warden setup
// --device cpu` puts it:
//
//	go test -tags vllm -run TestRealSetup ./supervisor/vllm/setup   # once, some minutes
//	go test -tags vllm ./supervisor/vllm
package vllm
