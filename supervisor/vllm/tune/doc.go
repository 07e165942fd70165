// Package tune chooses vLLM's settings for the work of agents: long prompts
// that come back turn after turn. It is pure functions of values: what is known
// of machine, model and vLLM goes in, settings with their reasons come out, and
// the same facts always give the same settings.
//
// Reader's path:
//
//	model.go      what a model's config.json says about its KV cache
//	capacity.go   KV tokens before the start, and what a typical session is
//	facts.go      everything that the rules look at
//	settings.go   Decide: each setting with its value and its reason
//	offload.go    the host-memory tier: when, and how large
//	kvdtype.go    which KV types a GPU serves well
//
// # Where the rules come from
//
// What vLLM does with a setting was read in its source (0.32.0). What a setting
// is worth was SIMULATED: `go run ./cmd/ladder -settings` plays the reference
// load against engines that differ in one setting only, and each rule's comment
// quotes the cells that decided it. No GPU took part.
//
// # Who wins
//
// A setting that stands among the user's own arguments is never passed a second
// time: it is reported as the user's.
package tune
