package status

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/rates"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/vllm"
)

var now = time.Unix(1000, 0)

// twoReplicas is a model of which one replica serves and one is parked.
func twoReplicas() Facts {
	r0 := supervisor.Replica{Spec: supervisor.Spec{ID: "r0", Model: "m", GPUUUIDs: []string{"GPU-0"}}, State: supervisor.Ready, PID: 7, MaxModelLen: 4096}
	r0.Stats.At, r0.Stats.KVCapacityTokens = now.Add(-time.Second), 40_000
	r1 := supervisor.Replica{Spec: supervisor.Spec{ID: "r1", Model: "m"}, State: supervisor.Parked}
	m := plan.Model{Engine: new(vllm.Engine), Specs: []supervisor.Spec{r0.Spec, r1.Spec}}
	m.Alias = "m"
	return Facts{
		Now: now, Replicas: []supervisor.Replica{r0, r1},
		Models: []plan.Model{m},
		Routed: router.Snapshot{Models: []router.ModelSnapshot{{
			Alias: "m", Requests: 10, Errors: 1, Refused: 2, RequestsPerSecond: 0.5,
			Replicas: []router.ReplicaSnapshot{{ID: "r0", Held: 3, SpillLimit: 8}},
			Sessions: []router.SessionSnapshot{{ID: "abcd", Home: "r0", CachedShare: -1, LastPrompt: -1, LastCached: 5}},
		}}},
		Rates:   map[supervisor.ReplicaID]rates.Rates{"r0": {Decode: 20, Hits: 3, Queries: 4}, "r1": {Decode: 99}},
		Before:  map[supervisor.ReplicaID]supervisor.Work{"r0": {Held: 2}},
		Devices: []gpu.Device{{Index: 0, UUID: "GPU-0"}, {Index: 1, UUID: "GPU-1"}},
		XIDs:    map[string]map[int]uint64{"GPU-1": {79: 1}},
		Asides:  map[string]supervisor.Aside{"GPU-1": {Cause: "lost"}},
	}
}

// Each replica has its engine's, the router's and the earlier warden's side.
func TestPartsMeetInReplicas(t *testing.T) {
	s := twoReplicas().Status()
	r := s.Replicas[0]
	if r.Held != 5 || r.Engine == nil || *r.Engine.DecodeTokensPerSecond != 20 || *r.Engine.HitRate60s != 0.75 || r.Engine.AgeSeconds != 1 {
		t.Errorf("%+v, engine %+v", r, r.Engine)
	}
	if len(r.Sessions) != 1 || r.Sessions[0].CachedShare != nil || r.Sessions[0].LastPromptTokens != nil || *r.Sessions[0].LastCachedTokens != 5 {
		t.Errorf("sessions %+v", r.Sessions)
	}
	if parked := s.Replicas[1]; parked.Engine != nil || parked.Held != 0 {
		t.Errorf("without a process: %+v", parked)
	}
	if m := s.Models[0]; m.SpillLimit != 8 || !m.SpillAuto || m.MaxModelLen != 4096 || m.TypicalSessions <= 0 {
		t.Errorf("%+v", m)
	}
	if g := s.GPUs; g[0].Replica != "r0" || g[0].XIDs != nil || g[0].Aside != nil || g[1].XIDs["79"] != 1 || g[1].Aside.Cause != "lost" {
		t.Errorf("%+v", g)
	}
}

// What has no process counts in no rate.
func TestTotals(t *testing.T) {
	got := twoReplicas().Status().Totals
	if got.Requests != 10 || got.Errors != 3 || got.Held != 5 || *got.RequestsPerSecond != 0.5 ||
		*got.DecodeTokensPerSecond != 20 || *got.HitRate60s != 0.75 || got.TTFT != nil {
		t.Errorf("%+v", got)
	}
}

func TestState(t *testing.T) {
	for want, states := range map[string][]supervisor.State{
		control.DaemonServing:  {supervisor.Suspect, supervisor.Starting},
		control.DaemonStarting: {supervisor.Pending, supervisor.Parked},
		control.DaemonFailed:   {supervisor.Parked, supervisor.Stopped},
	} {
		var replicas []supervisor.Replica
		for _, s := range states {
			replicas = append(replicas, supervisor.Replica{State: s})
		}
		if got := stateOf(replicas); got != want {
			t.Errorf("%v: %s, want %s", states, got, want)
		}
	}
}
