package status

import (
	"slices"

	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/rates"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
)

func (f Facts) replica(r supervisor.Replica) control.Replica {
	out := control.Replica{
		ID: string(r.ID), Model: r.Model, State: string(r.State), Note: r.Note, Since: r.Since, StartedAt: r.StartedAt,
		ReadyAt: r.ReadyAt, Generation: r.Generation, Restarts: r.Restarts, PID: r.PID, NextRetry: r.NextRetry,
		GPUs: r.GPUIndices,
	}
	if r.Device == supervisor.DeviceCPU {
		out.CPUs = r.CPUs
	}
	if r.State == supervisor.Starting || r.State == supervisor.Warming {
		out.Phase = &control.Phase{Name: r.Phase.Name, Detail: r.Phase.Detail, Done: r.Phase.Done, Total: r.Phase.Total}
	}
	if r.LastStart > 0 {
		seconds := r.LastStart.Seconds()
		out.EstimateSeconds = &seconds
	}
	if r.Diagnosis.Cause != "" {
		out.Diagnosis = &control.Diagnosis{Cause: r.Diagnosis.Cause, Fix: r.Diagnosis.Fix, Line: r.Diagnosis.Line}
	}
	out.Engine = f.engine(r)
	for _, m := range f.Routed.Models {
		if m.Alias == r.Model {
			addTraffic(&out, m)
		}
	}
	out.Held += f.Before[r.ID].Held
	return out
}

// engine is what the engine itself says; nil where it has said nothing.
func (f Facts) engine(r supervisor.Replica) *control.Engine {
	if r.Stats.At.IsZero() || r.PID == 0 {
		return nil
	}
	age := f.Now.Sub(r.Stats.At)
	e := &control.Engine{
		At: r.Stats.At, AgeSeconds: age.Seconds(), Stale: age > rates.MaxAge, Running: r.Stats.Running,
		Waiting: r.Stats.Waiting, KVUsed: r.Stats.KVUsed, KVCapacityTokens: r.Stats.KVCapacityTokens,
	}
	if minute, ok := f.Rates[r.ID]; ok {
		e.Preemptions60s, e.PrefillTokensPerSecond, e.DecodeTokensPerSecond = &minute.Preemptions, &minute.Prefill, &minute.Decode
		if share, ok := minute.HitRate(); ok {
			e.HitRate60s = &share
		}
	}
	e.HostTier = f.hostTier(r)
	return e
}

// hostTier is nil for engines without one.
func (f Facts) hostTier(r supervisor.Replica) *control.HostTier {
	s := r.Stats
	t := &control.HostTier{CapacityTokens: plan.HostTokens(f.Models, r.Model), QueriedTokens: s.ExternalQueries, HitTokens: s.ExternalHits}
	if t.CapacityTokens == 0 && t.QueriedTokens == 0 {
		return nil
	}
	if minute, ok := f.Rates[r.ID]; ok {
		if share, ok := minute.HostHitRate(); ok {
			t.HitRate60s = &share
		}
	}
	return t
}

// addTraffic adds the router's side of a replica.
func addTraffic(out *control.Replica, m router.ModelSnapshot) {
	i := slices.IndexFunc(m.Replicas, func(r router.ReplicaSnapshot) bool { return string(r.ID) == out.ID })
	if i < 0 {
		return
	}
	r := m.Replicas[i]
	out.Held, out.StickySessions, out.SpilledSessions = r.Held, r.Sticky, r.Spilled
	out.RequestsTotal, out.ErrorsTotal, out.SessionTokens = r.Requests, r.Errors, r.SessionTokens
	out.Sessions2m, out.SessionTokens2m = r.Recent, r.RecentTokens
	out.TTFT = quantiles(r.TTFT)
	out.PromptTokens = &control.PromptTokens{
		CachedPerSecond: r.Tokens.CachedRate, ComputedPerSecond: r.Tokens.ComputedRate,
		CachedTotal: r.Tokens.CachedTotal, ComputedTotal: r.Tokens.ComputedTotal, CachedShareHour: known(r.Tokens.CachedShareHour),
	}
	for _, s := range m.Sessions {
		if string(s.Home) == out.ID || string(s.Served) == out.ID {
			out.Sessions = append(out.Sessions, sessionStatus(s))
		}
	}
}

func sessionStatus(s router.SessionSnapshot) control.Session {
	out := control.Session{
		ID: s.ID, Client: s.Client, Turns: s.Turns, Tokens: s.Tokens, LastSeen: s.LastSeen,
		CachedShare: known(s.CachedShare), Home: string(s.Home), State: s.State, Reason: string(s.Reason),
		Class: s.Class, Parent: s.Parent, Spills: s.Spills,
	}
	if s.LastPrompt >= 0 {
		out.LastPromptTokens = &s.LastPrompt
	}
	if s.LastCached >= 0 {
		out.LastCachedTokens = &s.LastCached
	}
	if b := s.Break; b != nil {
		out.Break = &control.PrefixBreak{Cause: string(b.Cause), Text: b.Text, Fix: b.Fix, At: b.At}
	}
	return out
}

func quantiles(q router.Quantiles) *control.Quantiles {
	if q.Count == 0 {
		return nil
	}
	return &control.Quantiles{P50: q.P50.Seconds(), P95: q.P95.Seconds(), P99: q.P99.Seconds()}
}

// known is nil for the router's negative "unknown".
func known(share float64) *float64 {
	if share < 0 {
		return nil
	}
	return &share
}
