package status

import (
	"slices"

	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/vllm/tune"
)

func modelStatus(m plan.Model, routed router.ModelSnapshot, replicas []supervisor.Replica) control.Model {
	out := control.Model{
		Alias: m.Alias, Repo: m.Repo, DP: len(m.Specs), TP: m.TP, Device: m.Specs[0].Device,
		Policy: routed.Policy, Affinity: routed.Affinity, SpillLimit: routed.SpillLimit, SpillAuto: routed.SpillLimit == 0,
		MaxNumSeqs: m.MaxNumSeqs, SessionsLive: routed.SessionsLive, SessionsSeen: uint64(routed.SessionsSeen),
		Placements: map[string]uint64{}, HomesLost: routed.HomesLost,
	}
	addTuning(&out, m)
	if out.SpillAuto && len(routed.Replicas) > 0 {
		out.SpillLimit = routed.Replicas[0].SpillLimit
	}
	for reason, n := range routed.Placements {
		out.Placements[string(reason)] = n
	}
	for cause, n := range routed.Breaks {
		if n > 0 {
			if out.PrefixBreaks == nil {
				out.PrefixBreaks = map[string]uint64{}
			}
			out.PrefixBreaks[string(cause)] = n
		}
	}
	for _, q := range routed.Queue {
		out.Queue = append(out.Queue, control.Queued{Session: q.Session, Position: q.Position, Why: string(q.Why), Since: q.Since})
	}
	for _, r := range replicas {
		if r.Model == m.Alias && r.MaxModelLen > 0 {
			out.MaxModelLen = r.MaxModelLen
		}
	}
	out.TypicalSessions = typicalSessions(m, replicas)
	return out
}

// addTuning adds the settings of a model's engines.
func addTuning(out *control.Model, m plan.Model) {
	out.KVEstimateTokens, out.KVTokenBytes, out.WeightsBytes = m.Tuned.KVTokens, m.KVTokenBytes, m.WeightsBytes
	if m.Tuned.FP8 != tune.FP8Unknown {
		out.FP8KV = string(m.Tuned.FP8)
	}
	t := m.Tuned.Tier
	out.KVOffload = &control.KVOffload{GiB: t.GiB, Tokens: t.Tokens, Reason: t.Reason, Warning: t.Warning, PossibleGiB: t.Possible, ConfiguredOff: t.ConfiguredOff}
	refused := m.Engine.Refused()
	for _, s := range m.Tuned.Settings {
		wire := control.Setting{Flag: s.Flag, Value: s.Value, By: string(s.By), Reason: s.Reason}
		if slices.Contains(refused, s.Flag) {
			wire.Value, wire.By, wire.Reason = "default", control.ByVLLM, "this vLLM refused the flag"
		}
		out.Settings = append(out.Settings, wire)
	}
	if slices.Contains(refused, plan.TierFlag) {
		out.KVOffload.GiB, out.KVOffload.Tokens, out.KVOffload.Reason = 0, 0, "off: this vLLM refused "+plan.TierFlag
	}
}

// typicalSessions are those that the smallest replica of a model holds, as far
// as its size is known or expected.
func typicalSessions(m plan.Model, replicas []supervisor.Replica) float64 {
	smallest := 0
	for _, r := range replicas {
		if tokens := r.Stats.KVCapacityTokens; r.Model == m.Alias && tokens > 0 && (smallest == 0 || tokens < smallest) {
			smallest = tokens
		}
	}
	if smallest == 0 {
		smallest = m.Tuned.KVTokens
	}
	return tune.TypicalSessions(smallest)
}
