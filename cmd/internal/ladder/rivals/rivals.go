// Package rivals holds the placement rules of other systems, as far as their
// sources and documents tell, in the form of placement's Step: so that they can
// be played against ours on the same load.
//
// Each rule answers one question, where a turn goes; fleet.go does the rest
// (counts, retries, a queue while nothing accepts). Rules that know prompts by
// their text are told how much of a turn's prompt each replica has been sent
// before, which is what their radix trees and hash indexes compute.
//
// Reading order: rivals.go (the list), fleet.go, simple.go, vllm.go (vLLM's own
// balancer), router.go (vllm-project/router), smg.go (SMG), cost.go (Dynamo,
// llm-d, LMetric).
package rivals

import (
	"fmt"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// Info is what some systems are configured with or read from the prompt.
type Info struct {
	// Shared is the length in tokens of the prompt's shared prefix by root.
	Shared map[uint64]int
	Seed   uint64
}

// rule decides for one turn among f.open, which is never empty.
type rule interface {
	pick(f *fleet, t *placement.Turn, now time.Time) *replica
}

// Rule names a rival and makes it.
type Rule struct {
	Name string
	// Source says where the rule comes from.
	Source string
	make   func(Info) rule
}

// All returns every rival, the plain ones first.
func All() []Rule {
	return []Rule{
		{"round-robin", "the classic", func(Info) rule { return &roundRobin{} }},
		{"random", "the classic", func(i Info) rule { return newRandom(i.Seed) }},
		{"leastconn", "HAProxy leastconn", func(Info) rule { return leastConn{} }},
		{"dp-0.26", "vLLM 0.26 --data-parallel-size, dense model (its engine counts never arrive)", func(Info) rule { return &dp026{} }},
		{"dp-0.27", "vLLM 0.27 to 0.32 --data-parallel-size (PR 49204)", func(Info) rule { return &dp027{} }},
		{"stick-table", "HAProxy leastconn with a stick-table on the session header", func(Info) rule { return &stickTable{} }},
		{"consistent-hash", "vllm-project/router consistent_hash on the session id", func(Info) rule { return &hashRing{bound: 0} }},
		{"bounded-hash", "HAProxy hash-balance-factor 125, KubeAI: on the session id", func(Info) rule { return &hashRing{bound: 1.25} }},
		{"cache_aware", "smg-project/smg 1.13 cache_aware with its defaults, HTTP engines", func(i Info) rule { return newCacheAware(i.Seed) }},
		{"sticky_least_loaded", "vllm-project/router PR 235", func(Info) rule { return &stickyLeastLoaded{} }},
		{"sticky_table", "vllm-project/router sticky_table", func(Info) rule { return &stickyTable{} }},
		{"dynamo", "ai-dynamo KV router cost, predicted index", func(Info) rule { return dynamo{} }},
		{"llm-d", "llm-d default scorers 2 queue, 2 kv, 3 prefix", func(i Info) rule { return newLLMD(i.Seed) }},
		{"lmetric", "LMetric: uncached tokens x (in flight + 1)", func(Info) rule { return lmetric{} }},
	}
}

// New makes the rival of that name.
func New(name string, info Info) (*Fleet, error) {
	for _, r := range All() {
		if r.Name == name {
			return newFleet(r.make(info), info), nil
		}
	}
	return nil, fmt.Errorf("no rival is called %q", name)
}
