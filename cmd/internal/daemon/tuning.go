package daemon

import (
	"slices"

	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/vllm/tune"
)

// This file tells what the plan chose for the engines: to the router, to people,
// and to the log.

// tierFlag makes the KV cache's second tier.
const tierFlag = "--kv-offloading-size"

// hostTokens is what the second tier of one replica of a model holds, as far as
// it is known; 0 without one, also when the engine refused its flag.
func (d *Daemon) hostTokens(alias string) int {
	for _, m := range d.models {
		if m.Alias == alias && !slices.Contains(m.Engine.Refused(), tierFlag) {
			return m.Tuned.Tier.Tokens
		}
	}
	return 0
}

// hostTier is nil for engines without one.
func (d *Daemon) hostTier(r supervisor.Replica) *control.HostTier {
	s := r.Stats
	t := &control.HostTier{CapacityTokens: d.hostTokens(r.Model), QueriedTokens: s.ExternalQueries, HitTokens: s.ExternalHits}
	if t.CapacityTokens == 0 && t.QueriedTokens == 0 {
		return nil
	}
	if minute, ok := d.engines.of(r.ID); ok {
		if share, ok := minute.HostHitRate(); ok {
			t.HitRate60s = &share
		}
	}
	return t
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
	if slices.Contains(refused, tierFlag) {
		out.KVOffload.GiB, out.KVOffload.Tokens, out.KVOffload.Reason = 0, 0, "off: this vLLM refused "+tierFlag
	}
}

// tellTuning logs what was chosen, and warns of what was asked for against
// advice.
func (d *Daemon) tellTuning() {
	for _, m := range d.models {
		if m.Unkept != nil {
			d.log.Warn("engine settings are decided anew by the next warden: they cannot be noted", "err", m.Unkept)
		}
		for _, s := range m.Tuned.Settings {
			d.log.Info("engine setting", "model", m.Alias, "flag", s.Flag, "value", s.Value, "by", string(s.By), "reason", s.Reason)
		}
		if w := m.Tuned.Tier.Warning; w != "" && m.Tuned.Tier.GiB > 0 {
			d.log.Warn("the KV cache's tier in host memory was asked for against advice", "model", m.Alias, "reason", w)
			d.bus.Publish(events.Event{Kind: "vllm", Model: m.Alias, Text: "kv_offload was asked for: " + w})
		}
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
