package core

import (
	"fmt"
	"strings"
	"time"
)

// Profile is a machine with a model, as measured or estimated.
type Profile struct {
	Name string
	// Source says where the figures come from.
	Source string
	Cost   Cost
	// BlockSize and Blocks are its KV cache, in tokens and blocks.
	BlockSize, Blocks int
	// ModelLen is the model's own context length in tokens.
	ModelLen int
	// Load is how long a start takes until the engine serves.
	Load time.Duration
	// TokenBytes is the size of one token's KV in bytes.
	TokenBytes int
	// HostBytesPerSecond is the rate of loads from host memory.
	HostBytesPerSecond float64
	// WeightsGiB is what the start-up log claims as the size of the weights.
	WeightsGiB float64
}

// Profiles returns all built-in profiles; the first is the default.
func Profiles() []Profile {
	return []Profile{
		{
			Name:   "demo",
			Source: "invented: an RTX-4090-like machine, fast enough to look alive on a screen",
			Cost: Cost{
				Base: 2 * time.Millisecond, Floor: 14 * time.Millisecond,
				PerToken: 60_000, PrefillContext: 4, DecodeContext: 150,
				Frontend: 5 * time.Millisecond,
			},
			BlockSize: 16, Blocks: 2500, ModelLen: 262_144,
			Load: 3 * time.Second, TokenBytes: 147_456, HostBytesPerSecond: 25e9, WeightsGiB: 7.56,
		},
		{
			// One NVIDIA RTX A4000 (16 GiB) with Qwen3-4B-Instruct-2507 in bf16.
			// Step times were fitted to the reference measurement: about 3,600
			// prefill tokens/s and 25 ms a decode step. KV: 144 KiB per token
			// (2 × 36 layers × 8 heads × 128 × 2 B); about 5.5 GiB are left of
			// 16 GiB × 0.92 after weights and graphs, hence 40,000 tokens. 2250
			// blocks instead give the 36,000 of the first simulation of this
			// machine. Host loads: 12 GB/s, about half of PCIe 4.0 × 16.
			Name:   "a4000-qwen3-4b",
			Source: "fitted to the reference measurement on 4 × RTX A4000, Qwen3-4B bf16, vLLM 0.26",
			Cost: Cost{
				Base: 5 * time.Millisecond, Floor: 21 * time.Millisecond,
				PerToken: 178_000, PrefillContext: 13.1, DecodeContext: 470,
				Frontend: 60 * time.Millisecond,
			},
			BlockSize: 16, Blocks: 2500, ModelLen: 262_144,
			Load: 45 * time.Second, TokenBytes: 147_456, HostBytesPerSecond: 12e9, WeightsGiB: 7.56,
		},
		{
			// The random 4-layer "heavy" model of the real-engine tests on one
			// CPU core: about 4,000 prefill tokens/s and 4.7 ms a decode step,
			// measured with vLLM 0.32.0's CPU build. The two context terms
			// were not separated in that measurement.
			Name:   "cpu-heavy",
			Source: "measured: vLLM 0.32.0 CPU build, 4-layer random model, one core",
			Cost: Cost{
				Base: 700 * time.Microsecond, Floor: 4 * time.Millisecond,
				PerToken: 250_000, Frontend: 3 * time.Millisecond,
			},
			BlockSize: 32, Blocks: 313, ModelLen: 32_768,
			// 4 layers × 2 × 2 heads × 64 × 4 B.
			Load: 28 * time.Second, TokenBytes: 4_096, WeightsGiB: 0.02,
		},
		{
			Name:      "instant",
			Source:    "no time passes: for tests of what is answered, not when",
			BlockSize: 16, Blocks: 2500, ModelLen: 262_144, TokenBytes: 147_456, WeightsGiB: 7.56,
		},
	}
}

// FindProfile returns the profile of that name; "" is the default.
func FindProfile(name string) (Profile, error) {
	var names []string
	for i, p := range Profiles() {
		if p.Name == name || (name == "" && i == 0) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Profile{}, fmt.Errorf("unknown profile %q; use one of %s", name, strings.Join(names, ", "))
}
