package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"

	"github.com/lm-warden/warden/router/dialect"
	"github.com/lm-warden/warden/router/placement"
	"github.com/lm-warden/warden/router/record"
)

// collector is the half of a collector that the router is.
type collector struct {
	*Set
	views []placement.View
}

func (c collector) Collect(to chan<- prometheus.Metric) {
	c.Counted(to)
	for _, v := range c.views {
		c.Now(to, "m", v, 9)
	}
}

// samples are the non-zero lines of the text format, without buckets.
func samples(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	all, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range all {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	lines := []string{}
	for line := range strings.Lines(text.String()) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "_bucket{") && !strings.HasSuffix(line, " 0") && !strings.Contains(line, "placement_duration") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestFinished(t *testing.T) {
	t0 := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(seconds float64) time.Time { return t0.Add(time.Duration(seconds * float64(time.Second))) }
	unmeasured := dialect.Usage{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}
	tests := []struct {
		name string
		rec  record.Record
		want []string
	}{
		{"a stream",
			record.Record{Replica: "r0", Reason: "sticky", Stream: true, Status: 200, Arrived: t0, FirstByte: at(1), FirstToken: at(2), Ended: at(5),
				Usage: dialect.Usage{PromptTokens: 100, CachedTokens: 80, OutputTokens: 4}},
			[]string{
				`warden_output_tokens_total{model="m",replica="r0"} 4`,
				`warden_prefix_tokens_total{model="m",reason="sticky",result="hit"} 80`,
				`warden_prefix_tokens_total{model="m",reason="sticky",result="miss"} 20`,
				`warden_requests_total{code="200",model="m",replica="r0"} 1`,
				`warden_time_per_output_token_seconds_sum{model="m"} 1`,
				`warden_time_per_output_token_seconds_count{model="m"} 1`,
				`warden_time_to_first_byte_seconds_sum{model="m",reason="sticky"} 1`,
				`warden_time_to_first_byte_seconds_count{model="m",reason="sticky"} 1`,
				`warden_time_to_first_token_seconds_sum{model="m",reason="sticky"} 2`,
				`warden_time_to_first_token_seconds_count{model="m",reason="sticky"} 1`,
			}},
		{"a whole answer, nothing cached that is known",
			record.Record{Replica: "r0", Reason: "new", Status: 200, Arrived: t0, FirstByte: at(1), FirstToken: at(1), Ended: at(1),
				Usage: dialect.Usage{PromptTokens: 100, CachedTokens: -1, OutputTokens: 1}},
			[]string{
				`warden_output_tokens_total{model="m",replica="r0"} 1`,
				`warden_prefix_tokens_total{model="m",reason="new",result="miss"} 100`,
				`warden_requests_total{code="200",model="m",replica="r0"} 1`,
				`warden_time_to_first_byte_seconds_sum{model="m",reason="new"} 1`,
				`warden_time_to_first_byte_seconds_count{model="m",reason="new"} 1`,
			}},
		{"refused for want of a place", record.Record{Status: 429, Failed: true, Arrived: t0, Usage: unmeasured}, []string{
			`warden_requests_failed_total{model="m",replica=""} 1`, `warden_requests_total{code="429",model="m",replica=""} 1`}},
		{"an engine's error", record.Record{Replica: "r0", Status: 500, Arrived: t0, Usage: unmeasured}, []string{
			`warden_requests_failed_total{model="m",replica="r0"} 1`, `warden_requests_total{code="500",model="m",replica="r0"} 1`}},
		{"the client's error", record.Record{Replica: "r0", Status: 400, Arrived: t0, Usage: unmeasured}, []string{
			`warden_requests_total{code="400",model="m",replica="r0"} 1`}},
		{"cut in the middle", record.Record{Replica: "r0", Status: 200, Failed: true, Stream: true, Arrived: t0, FirstToken: at(1), Ended: at(2),
			Usage: dialect.Usage{PromptTokens: -1, CachedTokens: -1, OutputTokens: 3}}, []string{
			`warden_output_tokens_total{model="m",replica="r0"} 3`, `warden_requests_failed_total{model="m",replica="r0"} 1`,
			`warden_requests_total{code="200",model="m",replica="r0"} 1`,
			`warden_time_to_first_token_seconds_sum{model="m",reason=""} 1`, `warden_time_to_first_token_seconds_count{model="m",reason=""} 1`}},
		{"left before anything was sent", record.Record{Replica: "r0", Aborted: true, Failed: true, Arrived: t0, Usage: unmeasured}, []string{
			`warden_requests_aborted_total{cause="left",model="m",replica="r0"} 1`, `warden_requests_total{code="499",model="m",replica="r0"} 1`}},
		{"did not read", record.Record{Replica: "r0", Status: 200, Aborted: true, Stalled: true, Arrived: t0, Usage: unmeasured}, []string{
			`warden_requests_aborted_total{cause="stalled",model="m",replica="r0"} 1`, `warden_requests_total{code="200",model="m",replica="r0"} 1`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := New()
			tt.rec.Model = "m"
			m.Finished(&tt.rec)
			if diff := cmp.Diff(tt.want, samples(t, collector{Set: m})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatHappensBesides(t *testing.T) {
	m := New()
	m.Placed("m", "r0", placement.ReasonSpill, 3*time.Second)
	m.Retried("m", RetryEngineFull)
	m.Refused(404)
	m.Broke("m", "tools")
	want := []string{
		`warden_placement_wait_seconds_sum{model="m"} 3`,
		`warden_placement_wait_seconds_count{model="m"} 1`,
		`warden_placements_total{model="m",reason="spill",replica="r0"} 1`,
		`warden_prefix_breaks_total{cause="tools",model="m"} 1`,
		`warden_requests_total{code="404",model="",replica=""} 1`,
		`warden_retries_total{cause="engine_full",model="m"} 1`,
	}
	if diff := cmp.Diff(want, samples(t, collector{Set: m})); diff != "" {
		t.Error(diff)
	}
}

func TestNow(t *testing.T) {
	v := placement.View{
		Policy: placement.PolicyAffinity, Queue: make([]placement.QueuedView, 2), SessionsKnown: 5,
		Counters: placement.Counters{HomesLost: 3},
		Replicas: []placement.ReplicaView{
			{ID: "r0", Held: 4, SpillLimit: 8, Sticky: 3, Spilled: 1, SessionTokens: 1000, CapacityTokens: 4000},
			{ID: "r1", SpillLimit: 8},
		},
	}
	want := []string{
		`warden_affinity_enabled{model="m"} 1`,
		`warden_homes_lost_total{model="m"} 3`,
		`warden_kv_capacity_tokens{model="m",replica="r0"} 4000`, // and none of r1: unknown is not zero
		`warden_requests_in_flight{model="m",replica="r0"} 4`,
		`warden_requests_waiting{model="m"} 2`,
		`warden_session_tokens{model="m",replica="r0"} 1000`,
		`warden_sessions{kind="spilled",model="m",replica="r0"} 1`,
		`warden_sessions{kind="sticky",model="m",replica="r0"} 3`,
		`warden_sessions_known{model="m"} 5`,
		`warden_sessions_seen_total{model="m"} 9`,
		`warden_spill_limit{model="m",replica="r0"} 8`,
		`warden_spill_limit{model="m",replica="r1"} 8`,
	}
	if diff := cmp.Diff(want, samples(t, collector{Set: New(), views: []placement.View{v}})); diff != "" {
		t.Error(diff)
	}
	v.Policy = placement.PolicyBalance
	if got := samples(t, collector{Set: New(), views: []placement.View{v}})[0]; strings.HasPrefix(got, "warden_affinity_enabled") {
		t.Errorf("%s with affinity off", got)
	}
}

// The first failure must be a rise, not the birth of a series.
func TestSeriesBeginAtZero(t *testing.T) {
	m := New()
	m.Model("m")
	m.Replica("m", "r0")
	for name, want := range map[string]int{
		"warden_retries_total": 3, "warden_prefix_breaks_total": 10, "warden_requests_failed_total": 2, "warden_requests_aborted_total": 2,
		"warden_output_tokens_total": 1, "warden_placement_wait_seconds": 1,
	} {
		if got := testutil.CollectAndCount(collector{Set: m}, name); got != want {
			t.Errorf("%s: %d series, want %d", name, got, want)
		}
	}
}
