package vllm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/lm-warden/warden/supervisor"
)

// maxMetrics bounds one answer of /metrics. A real one has 60 to 150 kB.
const maxMetrics = 16 << 20

// Names of vLLM's metrics, the present one first. Counters are exported with
// "_total" since the client library's OpenMetrics change; both forms are tried.
var (
	nameRunning         = []string{"vllm:num_requests_running"}
	nameWaiting         = []string{"vllm:num_requests_waiting"}
	nameKVUsed          = []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"}
	namePrefixQueries   = []string{"vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries"}
	namePrefixHits      = []string{"vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits"}
	nameExternalQueries = []string{"vllm:external_prefix_cache_queries"}
	nameExternalHits    = []string{"vllm:external_prefix_cache_hits"}
	namePrompt          = []string{"vllm:prompt_tokens"}
	nameGeneration      = []string{"vllm:generation_tokens"}
	namePreemptions     = []string{"vllm:num_preemptions"}
)

const (
	nameIterations  = "vllm:iteration_tokens_total" // a histogram, in spite of its name
	nameCacheConfig = "vllm:cache_config_info"
)

// ParseStats reads one /metrics answer. Metrics that this version lacks stay
// zero; several engines behind one address are added up (KVUsed: their mean).
func (e *Engine) ParseStats(r io.Reader, at time.Time) (supervisor.EngineStats, error) {
	text, err := relevant(io.LimitReader(r, maxMetrics))
	if err != nil {
		return supervisor.EngineStats{}, fmt.Errorf("the engine's /metrics cannot be read: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return supervisor.EngineStats{}, fmt.Errorf("the engine's /metrics cannot be read: %w", err)
	}
	f := metrics(families)
	s := supervisor.EngineStats{
		At:               at,
		Running:          int(f.gauge(nameRunning)),
		Waiting:          int(f.gauge(nameWaiting)),
		PrefixQueries:    f.counter(namePrefixQueries),
		PrefixHits:       f.counter(namePrefixHits),
		ExternalQueries:  f.counter(nameExternalQueries),
		ExternalHits:     f.counter(nameExternalHits),
		PromptTokens:     f.counter(namePrompt),
		GenerationTokens: f.counter(nameGeneration),
		Preemptions:      f.counter(namePreemptions),
		Iterations:       f.observations(nameIterations),
	}
	if n := f.series(nameKVUsed); n > 0 {
		s.KVUsed = min(f.gauge(nameKVUsed)/float64(n), 1)
	}
	s.KVCapacityTokens, s.BlockSize = f.cacheConfig()
	return s, nil
}

// wanted are the sample and family names that ParseStats looks at.
var wanted = func() map[string]bool {
	set := map[string]bool{nameCacheConfig: true, nameIterations: true, nameIterations + "_count": true}
	for _, names := range [][]string{
		nameRunning, nameWaiting, nameKVUsed, namePrefixQueries, namePrefixHits, nameExternalQueries, nameExternalHits,
		namePrompt, nameGeneration, namePreemptions,
	} {
		for _, n := range names {
			set[n], set[n+"_total"] = true, true
		}
	}
	return set
}()

// relevant keeps the lines of wanted metrics. Every replica is asked every
// second, and parsing all of an answer, mostly histogram buckets, costs ten
// times as much as reading what is left.
func relevant(r io.Reader) (io.Reader, error) {
	var kept bytes.Buffer
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20) // cache_config_info carries some kilobytes of labels
	for sc.Scan() {
		line := sc.Bytes()
		name := bytes.TrimPrefix(line, []byte("# TYPE "))
		if end := bytes.IndexAny(name, "{ \t"); end >= 0 {
			name = name[:end]
		}
		switch {
		case wanted[string(name)]:
			kept.Write(line)
			kept.WriteByte('\n')
		case bytes.HasPrefix(line, []byte("<")):
			return nil, errors.New("the answer is a page, not metrics")
		}
	}
	return &kept, sc.Err()
}

type metrics map[string]*dto.MetricFamily

// find is the first of the names that is there.
func (f metrics) find(names []string, suffix string) *dto.MetricFamily {
	for _, n := range names {
		if m := f[n+suffix]; m != nil {
			return m
		}
		if m := f[n]; m != nil {
			return m
		}
	}
	return nil
}

func (f metrics) series(names []string) int { return len(f.find(names, "").GetMetric()) }

// gauge adds up all series of a gauge.
func (f metrics) gauge(names []string) float64 { return sum(f.find(names, "")) }

func (f metrics) counter(names []string) uint64 { return uint64(sum(f.find(names, "_total"))) }

// sum leaves out what is no amount: NaN, infinity, negative numbers.
func sum(family *dto.MetricFamily) float64 {
	total := 0.0
	for _, m := range family.GetMetric() {
		v := m.GetGauge().GetValue() + m.GetCounter().GetValue() + m.GetUntyped().GetValue()
		if v > 0 && v < math.MaxInt64 {
			total += v
		}
	}
	return min(total, math.MaxInt64/2)
}

func (f metrics) observations(name string) uint64 {
	var n uint64
	for _, m := range f[name].GetMetric() {
		n += m.GetHistogram().GetSampleCount()
	}
	return n
}

// cacheConfig reads the KV capacity. kv_cache_size_tokens is per engine and
// right for hybrid models too. num_gpu_blocks is already the sum over engines;
// it is only right for models with one kind of layer, but better than nothing
// where the other label is absent (before 0.24).
func (f metrics) cacheConfig() (tokens, blockSize int) {
	fromBlocks := 0
	for _, m := range f[nameCacheConfig].GetMetric() {
		labels := map[string]int{}
		for _, l := range m.GetLabel() {
			// "None" where vLLM does not know; beyond 31 bits no product would hold.
			if n, err := strconv.ParseInt(l.GetValue(), 10, 32); err == nil && n > 0 {
				labels[l.GetName()] = int(n)
			}
		}
		blockSize = labels["block_size"]
		tokens += labels["kv_cache_size_tokens"]
		fromBlocks = labels["num_gpu_blocks"] * blockSize
	}
	if tokens == 0 {
		tokens = fromBlocks
	}
	return tokens, blockSize
}
