package control

import (
	"encoding/json"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func ptr[T any](v T) *T { return &v }

// full has every field set, so that the golden file shows the whole schema: a field that goes away changes it.
func full() Status {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	prompt := &PromptTokens{CachedPerSecond: 2900, ComputedPerSecond: 400, CachedTotal: 9, ComputedTotal: 1, CachedShareHour: ptr(0.9)}
	ttft := &Quantiles{P50: 0.31, P95: 1.2, P99: 4.8}
	return Status{
		Schema: Schema, Version: "0.1.0", PID: 3120, StartedAt: at, Now: at.Add(time.Hour), Listen: "http://127.0.0.1:8000",
		Simulated: true, State: DaemonServing, GPUNote: "no driver", Hold: &Hold{Cause: "mismatch", Fix: "reboot", Since: at}, LogDir: "/var/log/warden",
		Models: []Model{{
			Alias: "qwen3-4b", Repo: "Qwen/Qwen3-4B", DType: "bf16", DP: 4, TP: 1, Device: "cuda", Policy: PolicyAffinity, Affinity: true,
			SpillLimit: 8, SpillAuto: true, MaxNumSeqs: 32, MaxModelLen: 16384, SessionsLive: 24, SessionsSeen: 311,
			Placements: map[string]uint64{"new": 3}, HitRateByReason: map[string]float64{"new": 0.33}, HomesLost: 1,
			Queue: []Queued{{Session: "9f3a", Position: 1, Why: "no room", Since: at}},
		}},
		Replicas: []Replica{{
			ID: "r0", Model: "qwen3-4b", State: StateReady, Note: "note", Phase: &Phase{Name: "weights", Detail: "shard", Done: 2, Total: 3},
			Since: at, StartedAt: at, ReadyAt: at, EstimateSeconds: ptr(38.0), Generation: 2, Restarts: 1, PID: 7, NextRetry: at,
			GPUs: []int{0}, CPUs: []int{1}, Held: 5, StickySessions: 6, SpilledSessions: 1, RequestsTotal: 100, ErrorsTotal: 1, SessionTokens: 67000, Sessions2m: 4, SessionTokens2m: 44000,
			Engine: &Engine{At: at, AgeSeconds: 0.4, Stale: true, Running: 5, Waiting: 1, KVUsed: 0.68, KVCapacityTokens: 40000,
				Preemptions60s: ptr(uint64(2)), PrefillTokensPerSecond: ptr(800.0), DecodeTokensPerSecond: ptr(104.0), HitRate60s: ptr(0.91)},
			TTFT: ttft, PromptTokens: prompt, Diagnosis: &Diagnosis{Cause: "CUDA out of memory", Fix: "smaller", Line: "OOM"},
			Sessions: []Session{{ID: "9f3a", Client: "claude-code", Turns: 4, Tokens: 12100, LastSeen: at, CachedShare: ptr(0.92), Home: "r0", State: "idle", Reason: "sticky"}},
		}},
		GPUs: []GPU{{Index: 0, UUID: "GPU-1", Name: "RTX A4000", MemoryUsedBytes: ptr(uint64(15)), MemoryTotalBytes: ptr(uint64(16)), Utilization: ptr(0.97),
			PowerWatts: ptr(138.0), TemperatureC: ptr(71.0), Throttled: []string{"power cap"}, Replica: "r0", SampleAgeSeconds: ptr(0.2), UnavailableReason: "lost", UnavailableFix: "reboot",
			Aside: &Aside{Cause: "XID 79", Fix: "reboot", Since: at}, XIDs: map[string]uint64{"79": 1}}},
		Totals: Totals{RequestsPerSecond: ptr(1.9), Requests: 100, Errors: 1, Retried: 1, Held: 5, PrefillTokensPerSecond: ptr(3100.0), DecodeTokensPerSecond: ptr(412.0),
			HitRate60s: ptr(0.82), TTFT: ttft, SessionsLive: 24, SessionsSeen: 311, Placements: map[string]uint64{"sticky": 104},
			HitRateByReason: map[string]float64{"sticky": 0.91}, HomesLost: 1, PromptTokens: prompt, EventsDropped: 2},
	}
}

// TestSchema fails when a field changes its name, its unit's form or disappears.
func TestSchema(t *testing.T) {
	for name, v := range map[string]any{"status_full": full(), "status_unknown": Status{Replicas: []Replica{{Engine: &Engine{}}}, GPUs: []GPU{{}}, Models: []Model{{}}}} {
		got, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		path := "testdata/" + name + ".json"
		if *update {
			if err := os.WriteFile(path, append(got, '\n'), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestStatusSurvivesTheWire(t *testing.T) {
	raw, err := json.Marshal(full())
	if err != nil {
		t.Fatal(err)
	}
	var got Status
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(full(), got); diff != "" {
		t.Error(diff)
	}
}
