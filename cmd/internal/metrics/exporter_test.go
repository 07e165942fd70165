package metrics

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
)

var update = flag.Bool("update", false, "write testdata/names.golden anew")

// now is the moment of every test.
var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

// fleet is two replicas on two GPUs: one serves, the other has crashed and is
// about to be started again.
func fleet() Options {
	ready := supervisor.Replica{
		Spec:  supervisor.Spec{ID: "r0", Model: "m", Device: supervisor.DeviceSimulated},
		State: supervisor.Ready, PID: 7, Generation: 3, Version: "0.32.0",
		Stats:       supervisor.EngineStats{At: now.Add(-2 * time.Second)},
		RestartsBy:  supervisor.RestartCounts{Order: 1, Hang: 2},
		StartPhases: []supervisor.PhaseTime{{Name: supervisor.PhaseWeights, Took: 1500 * time.Millisecond}},
	}
	down := supervisor.Replica{
		Spec:  supervisor.Spec{ID: "r1", Model: "m", Device: supervisor.DeviceSimulated},
		State: supervisor.Backoff, Generation: 1, Stats: supervisor.EngineStats{At: now.Add(-time.Minute)},
	}
	half, watts := 0.5, 120.0
	return Options{
		Version: "1.2.3", Revision: "abc", Now: func() time.Time { return now },
		Replicas:      func() []supervisor.Replica { return []supervisor.Replica{ready, down} },
		EventsDropped: func() uint64 { return 4 },
		LinesDropped:  func() uint64 { return 5 },
		SpansDropped:  func() uint64 { return 6 },
		StartsHeld:    func() bool { return true },
		WayIn: func() WayIn {
			return WayIn{Stale: map[string]bool{"api_keys_file": true, "tls_cert": false}, NotAfter: now.Add(time.Hour)}
		},
		GPUs: func() []GPU {
			return []GPU{
				{Device: gpu.Device{Index: 0, UUID: "GPU-a", Name: "SIMULATED GPU"}, Replica: "r0", Sample: gpu.Sample{
					At: now.Add(-time.Second), MemoryUsed: 100, MemoryTotal: 200, Utilization: &half, PowerWatts: &watts,
					TemperatureC: &watts, Throttled: []string{"hw_thermal"}}},
				{Device: gpu.Device{Index: 1, UUID: "GPU-b", Name: "SIMULATED GPU"}, Sample: gpu.Sample{
					At: now.Add(-time.Minute), MemoryUsed: 100, MemoryTotal: 200}, XIDs: map[int]uint64{13: 2, 79: 1}, Aside: true},
				{Device: gpu.Device{Index: 2, UUID: "GPU-c", Name: "SIMULATED GPU"}},
			}
		},
	}
}

// scrape returns the answer's samples of one metric, without comments.
func scrape(t *testing.T, h http.Handler, name string) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	var out strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, name+"{") || strings.HasPrefix(line, name+" ") {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestDaemonAndGPUs(t *testing.T) {
	e := New(fleet())
	tests := []struct{ name, want string }{
		{"warden_events_dropped_total", "warden_events_dropped_total 4\n"},
		{"warden_access_log_lines_dropped_total", "warden_access_log_lines_dropped_total 5\n"},
		{"warden_spans_dropped_total", "warden_spans_dropped_total 6\n"},
		{"warden_replica_info", `warden_replica_info{device="simulated",engine_version="",model="m",replica="r1"} 1
warden_replica_info{device="simulated",engine_version="0.32.0",model="m",replica="r0"} 1
`},
		{"warden_replica_restarts_total", `warden_replica_restarts_total{cause="crash",model="m",replica="r0"} 0
warden_replica_restarts_total{cause="crash",model="m",replica="r1"} 0
warden_replica_restarts_total{cause="hang",model="m",replica="r0"} 2
warden_replica_restarts_total{cause="hang",model="m",replica="r1"} 0
warden_replica_restarts_total{cause="order",model="m",replica="r0"} 1
warden_replica_restarts_total{cause="order",model="m",replica="r1"} 0
warden_replica_restarts_total{cause="start",model="m",replica="r0"} 0
warden_replica_restarts_total{cause="start",model="m",replica="r1"} 0
`},
		{"warden_replica_start_seconds", `warden_replica_start_seconds{model="m",phase="weights",replica="r0"} 1.5` + "\n"},
		// The age of figures from a process that is gone says nothing.
		{"warden_engine_stats_age_seconds", `warden_engine_stats_age_seconds{model="m",replica="r0"} 2` + "\n"},
		{"warden_gpu_utilization_ratio", `warden_gpu_utilization_ratio{gpu="0",replica="r0",uuid="GPU-a"} 0.5` + "\n"},
		{"warden_gpu_throttled", `warden_gpu_throttled{gpu="0",replica="r0",uuid="GPU-a"} 1` + "\n"},
		{"warden_starts_held", "warden_starts_held 1\n"},
		{"warden_access_file_stale", `warden_access_file_stale{file="api_keys_file"} 1
warden_access_file_stale{file="tls_cert"} 0
`},
		{"warden_certificate_not_after_seconds", fmt.Sprintf("warden_certificate_not_after_seconds %v\n", float64(now.Add(time.Hour).Unix()))},
		{"warden_gpu_xids_total", `warden_gpu_xids_total{gpu="1",replica="",uuid="GPU-b",xid="13"} 2
warden_gpu_xids_total{gpu="1",replica="",uuid="GPU-b",xid="79"} 1
`},
		{"warden_gpu_set_aside", `warden_gpu_set_aside{gpu="0",replica="r0",uuid="GPU-a"} 0
warden_gpu_set_aside{gpu="1",replica="",uuid="GPU-b"} 1
warden_gpu_set_aside{gpu="2",replica="",uuid="GPU-c"} 0
`},
		// A GPU that no longer answers ends its series, but for their age.
		{"warden_gpu_memory_used_bytes", `warden_gpu_memory_used_bytes{gpu="0",replica="r0",uuid="GPU-a"} 100` + "\n"},
		{"warden_gpu_sample_age_seconds", `warden_gpu_sample_age_seconds{gpu="0",replica="r0",uuid="GPU-a"} 1
warden_gpu_sample_age_seconds{gpu="1",replica="",uuid="GPU-b"} 60
`},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, scrape(t, e, tt.name)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestEveryStateIsASeries(t *testing.T) {
	for _, state := range states {
		o := fleet()
		o.Replicas = func() []supervisor.Replica {
			return []supervisor.Replica{{Spec: supervisor.Spec{ID: "r0", Model: "m"}, State: state}}
		}
		got := scrape(t, New(o), "warden_replica_state")
		if n := strings.Count(got, "\n"); n != len(states) {
			t.Errorf("%s: %d series, want %d", state, n, len(states))
		}
		want := fmt.Sprintf("warden_replica_state{model=\"m\",replica=\"r0\",state=%q} 1\n", state)
		if !strings.Contains(got, want) || strings.Count(got, "} 1\n") != 1 {
			t.Errorf("%s: %s", state, got)
		}
	}
}

func TestEngineSeriesEndWithTheirProcess(t *testing.T) {
	const text = "# TYPE vllm:g gauge\nvllm:g 1\n"
	tests := []struct {
		name       string
		generation uint64
		at         time.Time
		change     func(*supervisor.Replica)
		want       string
	}{
		{"present", 3, now.Add(-time.Second), func(*supervisor.Replica) {}, "vllm:g{replica=\"r0\"} 1\n"},
		{"of an earlier process", 2, now, func(*supervisor.Replica) {}, ""},
		{"old", 3, now.Add(-maxReadingAge - time.Second), func(*supervisor.Replica) {}, ""},
		{"the process has ended", 3, now, func(r *supervisor.Replica) { r.PID = 0 }, ""},
		{"of a replica that the plan no longer has", 3, now, func(r *supervisor.Replica) { r.ID = "r9" }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := fleet()
			r := o.Replicas()[0]
			tt.change(&r)
			o.Replicas = func() []supervisor.Replica { return []supervisor.Replica{r} }
			e := New(o)
			e.Keep("r0", tt.generation, tt.at, []byte(text))
			if diff := cmp.Diff(tt.want, scrape(t, e, "vllm:g")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A broken engine costs its own series, and is named in the log.
func TestOneBrokenEngine(t *testing.T) {
	var log bytes.Buffer
	o := fleet()
	both := o.Replicas()
	both[1].PID = 8
	o.Replicas = func() []supervisor.Replica { return both }
	o.Log = slog.New(slog.NewTextHandler(&log, nil))
	e := New(o)
	e.Keep("r0", 3, now, []byte("<html>"))
	e.Keep("r1", 1, now, []byte("# TYPE vllm:g gauge\nvllm:g 1\n"))
	if got := scrape(t, e, "vllm:g"); got != "vllm:g{replica=\"r1\"} 1\n" {
		t.Errorf("%q", got)
	}
	if got := scrape(t, e, "warden_engine_samples_dropped"); got != "warden_engine_samples_dropped{model=\"m\",replica=\"r1\"} 0\n" {
		t.Errorf("%q", got)
	}
	if !strings.Contains(log.String(), "replica r0: its metrics cannot be read") {
		t.Errorf("log: %s", &log)
	}
}

// Whatever an engine says, the answer holds one sample a series: Prometheus
// would refuse it otherwise.
func TestDuplicateSeriesOfAnEngine(t *testing.T) {
	e := New(fleet())
	e.Keep("r0", 3, now, []byte("# TYPE vllm:g gauge\nvllm:g{a=\"b\"} 1\nvllm:g{a=\"b\"} 2\nvllm:g 3\n"))
	if got := scrape(t, e, "vllm:g"); strings.Count(got, `a="b"`) != 1 || !strings.Contains(got, "vllm:g{replica=\"r0\"} 3\n") {
		t.Errorf("%q", got)
	}
}

func TestZeroOptions(t *testing.T) {
	e := New(Options{})
	e.Keep("r0", 1, now, []byte("vllm:g 1\n"))
	if got := scrape(t, e, "warden_build_info"); strings.Count(got, "\n") != 1 {
		t.Errorf("%q", got)
	}
	if got := scrape(t, e, "vllm:g"); got != "" {
		t.Errorf("%q of a replica that is not known", got)
	}
}

// ours gathers the names that are warden's own: rules for names hold for them.
func ours(t *testing.T, g prometheus.Gatherer) []*dto.MetricFamily {
	t.Helper()
	all, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !strings.HasPrefix(f.GetName(), "warden_") })
}

// complete is an Exporter with every metric in it: replicas, GPUs, an engine's
// text, and a router that has served.
func complete(t *testing.T) *Exporter {
	t.Helper()
	e := New(fleet())
	e.Keep("r0", 3, now, realText(t, "0.32.0-cpu"))
	rt := served(t)
	e.Register(rt)
	return e
}

func TestNamesFollowPrometheusRules(t *testing.T) {
	e := complete(t)
	var names []string
	for _, f := range ours(t, e.gatherer()) {
		names = append(names, f.GetName())
	}
	problems, err := testutil.GatherAndLint(e.gatherer(), names...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// The names and labels are an interface: dashboards and alerts are built on
// them, ours in configs/grafana and configs/prometheus too.
func TestNamesAreThoseOfTheGoldenFile(t *testing.T) {
	all, err := complete(t).gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, f := range all {
		if strings.HasPrefix(f.GetName(), "go_") || strings.HasPrefix(f.GetName(), "process_") {
			continue
		}
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
		if f.GetName() == "vllm:cache_config_info" { // its labels are vLLM's whole configuration
			labels = map[string]bool{"replica": labels["replica"]}
		}
		fmt.Fprintf(&got, "%s %s %s\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(sorted(labels), ","))
	}
	golden := filepath.Join("testdata", "names.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s\n`go test ./cmd/internal/metrics -update` writes the file anew", diff)
	}
}

func sorted(set map[string]bool) []string {
	var out []string
	for s := range set {
		out = append(out, s)
	}
	slices.Sort(out)
	return out
}
