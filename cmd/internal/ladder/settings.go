package ladder

import (
	"strconv"

	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// largeKV and largeSpeed make a large GPU of the reference one: 141 GiB leave
// room for about 840,000 tokens of 144 KiB, and nine times the speed is an
// assumption.
const (
	largeKV    = 800_000
	largeSpeed = 9
)

// SettingRungs vary the engine's own settings, one at a time: the evidence for
// what warden passes to vLLM unless the user does (supervisor/vllm/tune).
func SettingRungs(t Times, seed uint64) ([]Rung, error) {
	fleet, err := ReferenceFleet()
	if err != nil {
		return nil, err
	}
	ours := []string{placement.PolicyAdmission, placement.PolicyAffinity}
	b := builder{times: t, seed: seed}
	vary := func(group string, f Fleet, sessions, values []int, set func(*core.Config, int)) {
		for _, n := range sessions {
			for _, v := range values {
				b.add(group, named(Reference(n), strconv.Itoa(v)), f.each(func(_ int, e *core.Config) { set(e, v) }), ours)
			}
		}
	}
	near := []int{8, 12, 16, 24}
	vary("max-num-batched-tokens", fleet, near, []int{512, 1024, 2048, 4096, 8192}, func(e *core.Config, v int) { e.MaxBatchedTokens = v })
	vary("long-prefill-token-threshold", fleet, near, []int{0, 256, 512, 1024}, func(e *core.Config, v int) { e.LongPrefillThreshold = v })
	vary("priority scheduling", fleet, append(near, 32, 48), []int{0, 1}, func(e *core.Config, v int) { e.Priority = v == 1 })
	vary("max-num-seqs", fleet, near, []int{4, 8, 16, 32, 64}, func(e *core.Config, v int) { e.MaxNumSeqs = v })
	for _, n := range []int{16, 24, 32} {
		for _, gib := range []int{0, 2, 4, 6, 8, 16} {
			tiered, err := fleet.WithHost(gib)
			if err != nil {
				return nil, err
			}
			b.add("GiB of host tier a replica (40,000 KV tokens are 5.5 GiB)", named(Reference(n), strconv.Itoa(gib)), tiered, ours)
		}
	}
	large := fleet.WithKV(largeKV).each(func(_ int, e *core.Config) { e.Cost = e.Cost.Scaled(largeSpeed) })
	many := []int{64, 128, 256, 384}
	vary("max-num-seqs, 800,000 KV tokens", large, many, []int{16, 32, 64, 128, 256}, func(e *core.Config, v int) { e.MaxNumSeqs = v })
	vary("max-num-batched-tokens, 800,000 KV tokens", large.each(func(_ int, e *core.Config) { e.MaxNumSeqs = 256 }), many,
		[]int{2048, 8192, 16384}, func(e *core.Config, v int) { e.MaxBatchedTokens = v })
	return b.rungs, nil
}
