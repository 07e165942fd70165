package realladder

import (
	"context"
	"encoding/json"

	"github.com/lm-warden/warden/cmd/internal/proxies"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

func peers() []arm {
	return []arm{
		peerArm("HAProxy stick-table", "stick-table", func(b *bed) proxies.Peer { return proxies.HAProxy(b.engines) }),
		peerArm("vllm-router sticky_least_loaded", "sticky_least_loaded", func(b *bed) proxies.Peer {
			return proxies.VLLMRouter(b.engines, "--policy", "sticky_least_loaded")
		}),
		peerArm("vllm-router program scheduling", "", programs),
		peerArm("smg cache_aware", "cache_aware", func(b *bed) proxies.Peer {
			return proxies.SMG(b.engines, "--policy", "cache_aware")
		}),
	}
}

// programs is vllm-router's program scheduling, told what it would otherwise
// guess: the capacity and the costs of these engines.
func programs(b *bed) proxies.Peer {
	settings, err := json.Marshal(map[string]any{
		"program_scheduling_enable_key": "auto", "global_queue": true,
		"token_capacity_per_target": tiny.HeavyKVTokens,
		"prefill_cost_model":        b.rates.prefillModel(),
		"decode_throughput_model":   b.rates.decodeModel(),
	})
	if err != nil {
		panic("realladder: a map of strings and numbers always marshals: " + err.Error())
	}
	return proxies.VLLMRouter(b.engines, "--policy", "consistent_hash",
		"--enable-program-scheduling", "--program-scheduling-config-json", string(settings))
}

func peerArm(name, simulated string, peer func(*bed) proxies.Peer) arm {
	return arm{
		name: name, simulated: simulated,
		missing: func(b *bed) string {
			if program := peer(b).Program; b.home.Find(program) == "" {
				return program + " is not installed"
			}
			return ""
		},
		start: func(ctx context.Context, b *bed) (string, func(), error) {
			run, err := b.home.Start(ctx, name, peer(b))
			return run.URL, run.Stop, err
		},
	}
}
