package metrics

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

var start = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)

func TestFloatsAreWrittenAsPythonDoes(t *testing.T) {
	for number, want := range map[float64]string{0: "0.0", 3: "3.0", 0.25: "0.25", 1e6: "1e+06", 1796049154.5: "1.7960491545e+09"} {
		if got := formatFloat(number); got != want {
			t.Errorf("%v: %s, want %s", number, got, want)
		}
	}
}

func TestTokenBuckets(t *testing.T) {
	got := tokenBuckets(600)
	want := []float64{1, 2, 5, 10, 20, 50, 100, 200, 500}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestHistogramCounts(t *testing.T) {
	h := newHistogram([]float64{1, 2})
	for _, number := range []float64{0.5, 1, 1.5, 2, 9} {
		h.observe(number)
	}
	if h.counts[0] != 2 || h.counts[1] != 2 || h.counts[2] != 1 || h.sum != 14 {
		t.Errorf("counts %v, sum %v; a bound belongs to its bucket", h.counts, h.sum)
	}
}

// A request's story must show in all families that tell a part of it.
func TestStoryOfARequest(t *testing.T) {
	m := New(`we"ird`, true, core.Config{BlockSize: 16, Blocks: 2500, MaxModelLen: 16_000}, start)
	r := &Request{Samples: 1, MaxTokens: 50, Queued: start}
	first := core.TokenEvent{Prefill: &core.Prefill{Prompt: 100, Local: 64, Host: 16}}
	last := core.TokenEvent{Index: 1, Reason: core.Stop, Timing: &core.Timing{
		Queued: start, Scheduled: start.Add(time.Second), First: start.Add(3 * time.Second), Last: start.Add(7 * time.Second), Preemptions: 1,
	}}
	m.State(core.Stats{Running: 1, Waiting: 3, Deferred: 2, KVUsed: 0.5, Counters: core.Counters{PrefixQueries: 100, PrefixHits: 64, HostQueries: 36, HostHits: 16, Preemptions: 1}})
	m.Step(core.Step{Computed: 36}) // a chunk that emitted nothing
	m.Step(core.Step{Computed: 20, Tokens: []core.TokenEvent{first}})
	m.Token(r, first, start.Add(3*time.Second))
	m.Step(core.Step{Computed: 1, Tokens: []core.TokenEvent{last}})
	m.Token(r, last, start.Add(7*time.Second))
	m.Aborted()
	m.Rejected()
	var b strings.Builder
	m.Write(&b)
	for _, line := range []string{
		`vllm:num_requests_running{engine="0",model_name="we\"ird"} 1.0`,
		`vllm:num_requests_waiting_by_reason{engine="0",model_name="we\"ird",reason="deferred"} 2.0`,
		`vllm:kv_cache_usage_perc{engine="0",model_name="we\"ird"} 0.5`,
		`vllm:prefix_cache_hits_total{engine="0",model_name="we\"ird"} 64.0`,
		`vllm:external_prefix_cache_queries_total{engine="0",model_name="we\"ird"} 36.0`,
		`vllm:prompt_tokens_total{engine="0",model_name="we\"ird"} 100.0`,
		`vllm:prompt_tokens_by_source_total{engine="0",model_name="we\"ird",source="local_compute"} 20.0`,
		`vllm:prompt_tokens_cached_total{engine="0",model_name="we\"ird"} 80.0`,
		`vllm:prompt_tokens_cached_by_source_total{engine="0",model_name="we\"ird",source="host"} 16.0`,
		`vllm:generation_tokens_total{engine="0",model_name="we\"ird"} 2.0`,
		`vllm:iteration_tokens_total_count{engine="0",model_name="we\"ird"} 2.0`,
		`vllm:iteration_tokens_total_sum{engine="0",model_name="we\"ird"} 22.0`,
		`vllm:request_success_total{engine="0",finished_reason="stop",model_name="we\"ird"} 1.0`,
		`vllm:request_success_total{engine="0",finished_reason="abort",model_name="we\"ird"} 1.0`,
		`vllm:admission_rejections_total{model_name="we\"ird",reason="max_num_queued_reqs"} 1.0`,
		`vllm:time_to_first_token_seconds_sum{engine="0",model_name="we\"ird"} 3.0`,
		`vllm:inter_token_latency_seconds_sum{engine="0",model_name="we\"ird"} 4.0`,
		`vllm:request_queue_time_seconds_sum{engine="0",model_name="we\"ird"} 1.0`,
		`vllm:request_prefill_time_seconds_sum{engine="0",model_name="we\"ird"} 2.0`,
		`vllm:request_decode_time_seconds_sum{engine="0",model_name="we\"ird"} 4.0`,
		`vllm:request_inference_time_seconds_sum{engine="0",model_name="we\"ird"} 6.0`,
		`vllm:e2e_request_latency_seconds_sum{engine="0",model_name="we\"ird"} 7.0`,
		`vllm:request_time_per_output_token_seconds_sum{engine="0",model_name="we\"ird"} 4.0`,
		`vllm:request_prefill_kv_computed_tokens_sum{engine="0",model_name="we\"ird"} 20.0`,
		`vllm:prefix_cache_hits_created{engine="0",model_name="we\"ird"} 1.796083200e+09`,
		`kv_cache_size_tokens="40000"`,
		`kv_cache_max_concurrency="2.5"`,
	} {
		line = strings.ReplaceAll(line, "1.796083200e+09", formatFloat(float64(start.Unix())))
		if !strings.Contains(b.String(), line) {
			t.Errorf("missing: %s", line)
		}
	}
}

func TestPrometheusCanReadIt(t *testing.T) {
	m := New("m", true, core.Config{BlockSize: 16, Blocks: 2500, MaxModelLen: 16_000}, start)
	var b strings.Builder
	m.Write(&b)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	for name, family := range families {
		if family.GetHelp() == "" || len(family.GetMetric()) == 0 {
			t.Errorf("%s: help %q, %d metrics", name, family.GetHelp(), len(family.GetMetric()))
		}
	}
}
