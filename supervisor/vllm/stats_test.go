package vllm

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor"
)

func metricsFile(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "metrics", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestParseStats(t *testing.T) {
	at := time.Date(2026, 11, 30, 14, 0, 0, 0, time.UTC)
	for name, want := range map[string]supervisor.EngineStats{
		"0.32.0-cpu.prom": {
			KVCapacityTokens: 40000, BlockSize: 32,
			PrefixQueries: 5398, PrefixHits: 2688, PromptTokens: 5398, GenerationTokens: 8, Iterations: 8,
		},
		"0.26.0.prom": {
			Running: 5, Waiting: 3, KVUsed: 0.9731, KVCapacityTokens: 39392, BlockSize: 16,
			PrefixQueries: 1234567, PrefixHits: 1100000, ExternalQueries: 134567, ExternalHits: 4096,
			PromptTokens: 1234999, GenerationTokens: 90210, Preemptions: 12, Iterations: 20001,
		},
		"0.11-two-engines.prom": {
			Running: 5, KVUsed: 0.375, KVCapacityTokens: 3200, BlockSize: 16,
			PrefixQueries: 120, PrefixHits: 60, PromptTokens: 7,
		},
	} {
		t.Run(name, func(t *testing.T) {
			want.At = at
			got, err := New(Install{}, Options{}).ParseStats(bytes.NewReader(metricsFile(t, name)), at)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestParseStatsOddInput(t *testing.T) {
	e := New(Install{}, Options{})
	for name, tc := range map[string]struct {
		text string
		want supervisor.EngineStats
		bad  bool
	}{
		"nothing":              {},
		"foreign metrics only": {text: "python_info 1\n"},
		"negative and huge":    {text: "vllm:num_requests_running -3\nvllm:prompt_tokens_total 1e300\nvllm:num_requests_waiting 2\n", want: supervisor.EngineStats{Waiting: 2}},
		"usage above one":      {text: "vllm:kv_cache_usage_perc 1.5\n", want: supervisor.EngineStats{KVUsed: 1}},
		"capacity not a number": {
			text: `vllm:cache_config_info{block_size="None",kv_cache_size_tokens="None",num_gpu_blocks="12"} 1` + "\n"},
		"an HTML page": {text: "<html>502</html>\n", bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := e.ParseStats(strings.NewReader(tc.text), time.Time{})
			if (err != nil) != tc.bad {
				t.Fatalf("err = %v", err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}

func FuzzParseStats(f *testing.F) {
	f.Add(metricsFile(f, "0.26.0.prom"))
	f.Add(metricsFile(f, "0.11-two-engines.prom"))
	f.Add([]byte(`vllm:cache_config_info{block_size="9999999999",num_gpu_blocks="9999999999"} 1`))
	e := New(Install{}, Options{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := e.ParseStats(bytes.NewReader(raw), time.Time{})
		if err != nil {
			return
		}
		if s.Running < 0 || s.Waiting < 0 || s.KVCapacityTokens < 0 || s.BlockSize < 0 {
			t.Errorf("negative: %+v", s)
		}
		if s.KVUsed < 0 || s.KVUsed > 1 || math.IsNaN(s.KVUsed) {
			t.Errorf("KV used = %v", s.KVUsed)
		}
	})
}
