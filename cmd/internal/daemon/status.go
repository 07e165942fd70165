package daemon

import (
	"slices"
	"strconv"
	"time"

	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/rates"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
)

// maxListedSessions bounds the sessions in a status, per model.
const maxListedSessions = 200

// Status puts together what the parts know, in the control API's words.
func (d *Daemon) Status() control.Status {
	now := time.Now()
	replicas := d.sup.Snapshot()
	routed := d.router.Snapshot(maxListedSessions)
	samples, gpuNote := d.gpus.Latest()
	s := control.Status{
		Schema: control.Schema, Version: d.opts.Version, PID: pid, StartedAt: d.started, Now: now,
		Listen: d.url(), Access: d.access(), State: d.state(replicas), GPUNote: gpuNote, Hold: d.gpus.Held(), LogDir: d.logDir(),
		Models: []control.Model{}, Replicas: []control.Replica{}, GPUs: []control.GPU{},
	}
	for i, m := range d.models {
		s.Simulated = s.Simulated || m.Specs[0].Device == supervisor.DeviceSimulated
		s.Models = append(s.Models, modelStatus(m, routed.Models[i], replicas))
	}
	for _, r := range replicas {
		s.Replicas = append(s.Replicas, d.replicaStatus(r, routed, now))
	}
	asides := d.sup.Asides()
	for _, device := range d.gpus.Inventory().Devices {
		one := gpuStatus(device, samples, replicas, now)
		one.XIDs = xidStatus(d.gpus.XIDs(device.UUID))
		if a, aside := asides[device.UUID]; aside {
			one.Aside = &control.Aside{Cause: a.Cause, Fix: a.Fix, Since: a.At}
		}
		s.GPUs = append(s.GPUs, one)
	}
	s.Totals = d.totals(s, routed)
	return s
}

func (d *Daemon) state(replicas []supervisor.Replica) string {
	if d.isStopping() {
		return control.DaemonStopping
	}
	serving, coming := false, false
	for _, r := range replicas {
		serving = serving || r.State == supervisor.Ready || r.State == supervisor.Suspect
		coming = coming || r.Coming()
	}
	switch {
	case serving:
		return control.DaemonServing
	case coming:
		return control.DaemonStarting
	}
	return control.DaemonFailed
}

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

func (d *Daemon) replicaStatus(r supervisor.Replica, routed router.Snapshot, now time.Time) control.Replica {
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
	out.Engine = d.engineStatus(r, now)
	for _, m := range routed.Models {
		if m.Alias == r.Model {
			addTraffic(&out, m)
		}
	}
	out.Held += d.before.work(r.ID).Held
	return out
}

func (d *Daemon) engineStatus(r supervisor.Replica, now time.Time) *control.Engine {
	if r.Stats.At.IsZero() || r.PID == 0 {
		return nil
	}
	age := now.Sub(r.Stats.At)
	e := &control.Engine{
		At: r.Stats.At, AgeSeconds: age.Seconds(), Stale: age > rates.MaxAge, Running: r.Stats.Running,
		Waiting: r.Stats.Waiting, KVUsed: r.Stats.KVUsed, KVCapacityTokens: r.Stats.KVCapacityTokens,
	}
	if minute, ok := d.engines.of(r.ID); ok {
		e.Preemptions60s, e.PrefillTokensPerSecond, e.DecodeTokensPerSecond = &minute.Preemptions, &minute.Prefill, &minute.Decode
		if share, ok := minute.HitRate(); ok {
			e.HitRate60s = &share
		}
	}
	e.HostTier = d.hostTier(r)
	return e
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

func gpuStatus(device gpu.Device, samples map[string]gpu.Sample, replicas []supervisor.Replica, now time.Time) control.GPU {
	out := control.GPU{Index: device.Index, UUID: device.UUID, Name: device.ShortName(), Replica: ownerOf(device, replicas)}
	s, ok := samples[device.UUID]
	if !ok {
		return out
	}
	age := now.Sub(s.At).Seconds()
	out.SampleAgeSeconds, out.UnavailableReason, out.UnavailableFix = &age, s.Err, s.Fix
	out.Utilization, out.PowerWatts, out.TemperatureC, out.Throttled = s.Utilization, s.PowerWatts, s.TemperatureC, s.Throttled
	if s.MemoryTotal > 0 {
		out.MemoryUsedBytes, out.MemoryTotalBytes = &s.MemoryUsed, &s.MemoryTotal
	}
	return out
}

func xidStatus(counts map[int]uint64) map[string]uint64 {
	if len(counts) == 0 {
		return nil
	}
	out := make(map[string]uint64, len(counts))
	for code, n := range counts {
		out[strconv.Itoa(code)] = n
	}
	return out
}

// ownerOf is the replica that a GPU was given to, "" for none.
func ownerOf(device gpu.Device, replicas []supervisor.Replica) string {
	for _, r := range replicas {
		if slices.Contains(r.GPUUUIDs, device.UUID) {
			return string(r.ID)
		}
	}
	return ""
}

// totals sums over replicas and models.
func (d *Daemon) totals(s control.Status, routed router.Snapshot) control.Totals {
	t := control.Totals{Placements: map[string]uint64{}}
	perSecond := 0.0
	for _, m := range routed.Models {
		t.Requests += m.Requests
		t.Errors += m.Errors + m.Refused
		t.Retried += m.Retried
		t.SessionsLive += m.SessionsLive
		t.SessionsSeen += uint64(m.SessionsSeen)
		t.HomesLost += m.HomesLost
		perSecond += m.RequestsPerSecond
		for reason, n := range m.Placements {
			t.Placements[string(reason)] += n
		}
	}
	t.RequestsPerSecond = &perSecond
	t.TTFT = quantiles(routed.TTFT)
	var sum rates.Rates
	any := false
	for _, r := range s.Replicas {
		t.Held += r.Held
		if minute, ok := d.engines.of(supervisor.ReplicaID(r.ID)); ok && r.PID != 0 {
			any = true
			sum.Prefill += minute.Prefill
			sum.Decode += minute.Decode
			sum.Hits += minute.Hits
			sum.Queries += minute.Queries
		}
	}
	if any {
		t.PrefillTokensPerSecond, t.DecodeTokensPerSecond = &sum.Prefill, &sum.Decode
		if share, ok := sum.HitRate(); ok {
			t.HitRate60s = &share
		}
	}
	return t
}
