package advice

import (
	"fmt"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
)

// Capacity says how much conversation a model's replicas hold: in tokens as
// their engines say, or as expected before one has said it. "" = not known.
func Capacity(m control.Model, replicas []control.Replica) string {
	var l Load
	for _, r := range replicas {
		if r.Model == m.Alias && r.Engine != nil && r.Engine.KVCapacityTokens > 0 {
			l.Capacity += r.Engine.KVCapacityTokens
			if l.Replica == 0 || r.Engine.KVCapacityTokens < l.Replica {
				l.Replica = r.Engine.KVCapacityTokens
			}
		}
	}
	tokens, before, all := l.Replica, "~", fmt.Sprintf(", ~%s in all", Count(l.Capacity))
	if tokens == 0 {
		tokens, before, all = m.KVEstimateTokens, "of about ", " expected"
	}
	if tokens == 0 {
		return ""
	}
	text := fmt.Sprintf("KV cache %s%s tokens per replica", before, Count(tokens))
	if m.TypicalSessions > 0 {
		text += fmt.Sprintf(" = %.1f typical sessions of 15k", m.TypicalSessions)
	}
	if m.MaxModelLen > 0 && l.Replica > 0 {
		text += fmt.Sprintf(" = %.1f full ones of %s", float64(tokens)/float64(m.MaxModelLen), Count(m.MaxModelLen))
	}
	return text + all
}

// Tier says what became of the KV cache's tier in host memory; "" = nothing to
// say.
func Tier(m control.Model) string {
	o := m.KVOffload
	switch {
	case o == nil:
		return ""
	case o.GiB == 0:
		return "no tier in host memory: " + strings.TrimPrefix(o.Reason, "off: ")
	}
	text := fmt.Sprintf("tier in host memory: %.4g GiB per replica", o.GiB)
	if o.Tokens > 0 {
		text += fmt.Sprintf(", ~%s tokens", Count(o.Tokens))
	}
	text += " (" + o.Reason + ")"
	if o.Warning != "" {
		text += "; against advice: " + strings.TrimPrefix(o.Warning, "off: ")
	}
	return text
}

// TierHits says how good the tiers of a model's replicas were in the last
// minute; "" without one, or without anything looked for.
func TierHits(m control.Model, replicas []control.Replica) string {
	sum, n := 0.0, 0
	for _, r := range replicas {
		if r.Model == m.Alias && r.Engine != nil && r.Engine.HostTier != nil && r.Engine.HostTier.HitRate60s != nil {
			sum, n = sum+*r.Engine.HostTier.HitRate60s, n+1
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.0f%% of what the GPUs had lost came from there in the last minute", 100*sum/float64(n))
}

// Chosen lists the settings that warden chose for the engines, each with its
// reason; the tier has Tier.
func Chosen(m control.Model) []string {
	var out []string
	for _, s := range m.Settings {
		if s.By == control.ByWarden && !strings.HasPrefix(s.Flag, "--kv-") {
			out = append(out, fmt.Sprintf("%s %s: %s", s.Flag, s.Value, s.Reason))
		}
	}
	return out
}
