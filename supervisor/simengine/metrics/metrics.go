// Package metrics counts what a simulated engine does and writes it as vLLM
// does on /metrics: its names, labels, help texts and buckets.
package metrics

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

// Recorder keeps the counts behind /metrics (vllm/v1/metrics/loggers.py). Its
// gauges change only when the engine takes a step, so they stand still when it
// hangs, as vLLM's do.
type Recorder struct {
	modern  bool
	labels  labels
	info    labels // of cache_config_info
	host    bool   // a second tier exists
	created time.Time

	mu         sync.Mutex
	stats      core.Stats
	prompt     promptCounts
	generated  uint64
	finishes   map[string]uint64
	rejections uint64
	histograms histograms
}

type promptCounts struct{ total, local, host uint64 }

// histograms are named after vLLM's metrics.
type histograms struct {
	promptTokens, generationTokens, iterationTokens, maxGenerationTokens *histogram
	paramsN, paramsMaxTokens, preemptions, prefillComputed               *histogram
	timeToFirstToken, interTokenLatency, timePerOutputToken              *histogram
	endToEnd, queue, inference, prefill, decode                          *histogram
}

// The bucket families of vllm/v1/metrics/buckets.py.
var (
	latencyBuckets    = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	firstTokenBuckets = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	interTokenBuckets = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	iterationBuckets  = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384}
	paramsNBuckets    = []float64{1, 2, 5, 10, 20}
	preemptionBuckets = []float64{1, 2, 3, 4, 5, 10, 20}
)

// tokenBuckets is the series 1, 2, 5, 10, 20, ... up to the context length.
func tokenBuckets(limit int) []float64 {
	var out []float64
	for scale := 1; ; scale *= 10 {
		for _, m := range []int{1, 2, 5} {
			if m*scale > limit {
				return out
			}
			out = append(out, float64(m*scale))
		}
	}
}

// New returns an empty recorder. name is the model's first served name; modern
// adds the families that came after vLLM 0.26; now is the start of counting.
func New(name string, modern bool, cfg core.Config, now time.Time) *Recorder {
	tokens := tokenBuckets(cfg.MaxModelLen)
	size, concurrency := Capacity(cfg)
	return &Recorder{
		modern: modern,
		labels: labels{"engine": "0", "model_name": name},
		info: labels{
			"engine": "0", "block_size": fmt.Sprint(cfg.BlockSize), "num_gpu_blocks": fmt.Sprint(cfg.Blocks),
			"kv_cache_size_tokens":     fmt.Sprint(size),
			"kv_cache_max_concurrency": fmt.Sprint(concurrency),
			"enable_prefix_caching":    title(!cfg.NoPrefixCache), "cache_dtype": "auto", "gpu_memory_utilization": "0.92",
			"prefix_caching_hash_algo": "sha256",
		},
		host: cfg.Host.Tokens > 0, created: now,
		finishes: make(map[string]uint64),
		histograms: histograms{
			promptTokens: newHistogram(tokens), generationTokens: newHistogram(tokens),
			iterationTokens: newHistogram(iterationBuckets), maxGenerationTokens: newHistogram(tokens),
			paramsN: newHistogram(paramsNBuckets), paramsMaxTokens: newHistogram(tokens),
			preemptions: newHistogram(preemptionBuckets), prefillComputed: newHistogram(tokens),
			timeToFirstToken: newHistogram(firstTokenBuckets), interTokenLatency: newHistogram(interTokenBuckets),
			timePerOutputToken: newHistogram(interTokenBuckets),
			endToEnd:           newHistogram(latencyBuckets), queue: newHistogram(latencyBuckets), inference: newHistogram(latencyBuckets),
			prefill: newHistogram(latencyBuckets), decode: newHistogram(latencyBuckets),
		},
	}
}

// Capacity is what vLLM calls kv_cache_size_tokens and kv_cache_max_concurrency:
// how many requests of the full context length fit, counted in whole blocks.
func Capacity(cfg core.Config) (tokens int, concurrency float64) {
	blocks := (cfg.MaxModelLen + cfg.BlockSize - 1) / cfg.BlockSize
	concurrency = float64(cfg.Blocks) / float64(blocks)
	return int(concurrency * float64(cfg.MaxModelLen)), concurrency
}

// title spells a bool as Python does.
func title(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// State sets the gauges.
func (m *Recorder) State(stats core.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats = stats
}

// Step counts a finished step. iteration_tokens_total moves only when a token
// was emitted; a long prompt that prefills alone moves nothing here.
func (m *Recorder) Step(st core.Step) {
	if len(st.Tokens) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	total := len(st.Tokens)
	m.generated += uint64(len(st.Tokens))
	for _, ev := range st.Tokens {
		if p := ev.Prefill; p != nil {
			total += p.Prompt - p.Cached()
			m.prompt.total += uint64(p.Prompt)
			m.prompt.local += uint64(p.Local)
			m.prompt.host += uint64(p.Host)
		}
	}
	m.histograms.iterationTokens.observe(float64(total))
}

// Request is what the recorder keeps per request in flight.
type Request struct {
	Samples   int // answers to the same prompt
	MaxTokens int
	Queued    time.Time
	last      time.Time // when the last token came
	prompt    int
}

// Token observes one token of a live request.
func (m *Recorder) Token(r *Request, ev core.TokenEvent, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := ev.Prefill; p != nil {
		r.prompt = p.Prompt
		m.histograms.timeToFirstToken.observe(now.Sub(r.Queued).Seconds())
		m.histograms.prefillComputed.observe(float64(p.Prompt - p.Cached()))
	} else {
		m.histograms.interTokenLatency.observe(now.Sub(r.last).Seconds())
	}
	r.last = now
	if ev.Timing != nil {
		m.finished(r, ev)
	}
}

// finished counts a request that ended by itself.
func (m *Recorder) finished(r *Request, ev core.TokenEvent) {
	h, t := &m.histograms, ev.Timing
	tokens := ev.Index + 1
	m.finishes[string(ev.Reason)]++
	h.promptTokens.observe(float64(r.prompt))
	h.generationTokens.observe(float64(tokens))
	h.maxGenerationTokens.observe(float64(tokens))
	h.paramsN.observe(float64(r.Samples))
	h.paramsMaxTokens.observe(float64(r.MaxTokens))
	h.preemptions.observe(float64(t.Preemptions))
	h.endToEnd.observe(t.Last.Sub(t.Queued).Seconds())
	h.queue.observe(t.Scheduled.Sub(t.Queued).Seconds())
	h.inference.observe(t.Last.Sub(t.Scheduled).Seconds())
	h.prefill.observe(t.First.Sub(t.Scheduled).Seconds())
	h.decode.observe(t.Last.Sub(t.First).Seconds())
	perToken := 0.0
	if tokens > 1 {
		perToken = t.Last.Sub(t.First).Seconds() / float64(tokens-1)
	}
	h.timePerOutputToken.observe(perToken)
}

// Aborted counts a request whose client left.
func (m *Recorder) Aborted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finishes["abort"]++
}

// Rejected counts a request that the queue limit refused.
func (m *Recorder) Rejected() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rejections++
}

// Write puts out vLLM's families in its order.
func (m *Recorder) Write(b *strings.Builder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := exposition{b: b, created: m.created}
	l, st, h := m.labels, m.stats, &m.histograms
	e.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", value{l, float64(st.Running)})
	e.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", value{l, float64(st.Waiting)})
	e.gauge("vllm:num_requests_waiting_by_reason", "Number of waiting requests by reason. Reason labels: 'capacity' = waiting for scheduling capacity; 'deferred' = deferred by transient constraints "+
		"(LoRA budget, KV transfer, blocked status). Sum of all reasons equals vllm:num_requests_waiting.",
		value{l.with("reason", "capacity"), float64(st.Waiting - st.Deferred)}, value{l.with("reason", "deferred"), float64(st.Deferred)})
	e.gauge("vllm:engine_sleep_state", "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means sleep level 1; discard_all = 1 means sleep level 2.",
		value{l.with("sleep_state", "awake"), 1}, value{l.with("sleep_state", "weights_offloaded"), 0}, value{l.with("sleep_state", "discard_all"), 0})
	e.gauge("vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", value{l, st.KVUsed})
	e.counter("vllm:prefix_cache_queries", "Prefix cache queries, in terms of number of queried tokens.", value{l, float64(st.PrefixQueries)})
	e.counter("vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", value{l, float64(st.PrefixHits)})
	e.counter("vllm:external_prefix_cache_queries", "External prefix cache queries from KV connector cross-instance cache sharing, in terms of number of queried tokens.", value{l, float64(st.HostQueries)})
	e.counter("vllm:external_prefix_cache_hits", "External prefix cache hits from KV connector cross-instance cache sharing, in terms of number of cached tokens.", value{l, float64(st.HostHits)})
	e.counter("vllm:mm_cache_queries", "Multi-modal cache queries, in terms of number of queried items.", value{l, 0})
	e.counter("vllm:mm_cache_hits", "Multi-modal cache hits, in terms of number of cached items.", value{l, 0})
	e.counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.", value{l, float64(st.Preemptions)})
	m.writePrompts(&e)
	e.counter("vllm:generation_tokens", "Number of generation tokens processed.", value{l, float64(m.generated)})
	var finishes []value
	for _, reason := range []string{"stop", "length", "abort", "error", "repetition"} {
		finishes = append(finishes, value{l.with("finished_reason", reason), float64(m.finishes[reason])})
	}
	e.counter("vllm:request_success", "Count of successfully processed requests.", finishes...)
	if m.modern {
		e.counter("vllm:admission_rejections", "Number of admission attempts rejected by a queue limit, by reason.",
			value{labels{"model_name": l["model_name"], "reason": "max_num_queued_reqs"}, float64(m.rejections)},
			value{labels{"model_name": l["model_name"], "reason": "max_num_queued_tokens"}, 0})
	}
	h.write(&e, l)
	e.gauge("vllm:cache_config_info", "Information of the LLMEngine CacheConfig", value{m.info, 1})
}

func (m *Recorder) writePrompts(e *exposition) {
	l, p := m.labels, m.prompt
	e.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", value{l, float64(p.total)})
	e.counter("vllm:prompt_tokens_by_source", "Number of prompt tokens by source.",
		value{l.with("source", "local_compute"), float64(p.total - p.local - p.host)},
		value{l.with("source", "local_cache_hit"), float64(p.local)}, value{l.with("source", "external_kv_transfer"), float64(p.host)})
	e.counter("vllm:prompt_tokens_cached", "Number of cached prompt tokens (local + external).", value{l, float64(p.local + p.host)})
	if !m.modern {
		return
	}
	// Counted at admission, unlike the families above.
	bySource := []value{{l.with("source", "device"), float64(m.stats.PrefixHits)}, {l.with("source", "host"), float64(m.stats.HostHits)}}
	for _, source := range []string{"p2p", "disk", "external_unspecified"} {
		bySource = append(bySource, value{l.with("source", source), 0})
	}
	e.counter("vllm:prompt_tokens_cached_by_source", "Prefix-cache hit tokens by the cache tier that supplied them: device (local HBM), host (offloaded to DRAM), disk, p2p (transferred from another vLLM instance) "+
		"or external_unspecified. Counted at admission; sums to vllm:prefix_cache_hits + vllm:external_prefix_cache_hits.", bySource...)
}

func (h *histograms) write(e *exposition, l labels) {
	e.histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", l, h.promptTokens)
	e.histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", l, h.generationTokens)
	e.histogram("vllm:iteration_tokens_total", "Histogram of number of tokens per engine_step.", l, h.iterationTokens)
	e.histogram("vllm:request_max_num_generation_tokens", "Histogram of maximum number of requested generation tokens.", l, h.maxGenerationTokens)
	e.histogram("vllm:request_params_n", "Histogram of the n request parameter.", l, h.paramsN)
	e.histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", l, h.paramsMaxTokens)
	e.histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", l, h.timeToFirstToken)
	e.histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", l, h.interTokenLatency)
	e.histogram("vllm:request_time_per_output_token_seconds", "Histogram of time_per_output_token_seconds per request.", l, h.timePerOutputToken)
	e.histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", l, h.endToEnd)
	e.histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", l, h.queue)
	e.histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", l, h.inference)
	e.histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", l, h.prefill)
	e.histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", l, h.decode)
	e.histogram("vllm:request_num_preemptions", "Histogram of the number of times a request was preempted.", l, h.preemptions)
	e.histogram("vllm:request_prefill_kv_computed_tokens", "Histogram of new KV tokens computed during prefill (excluding cached tokens).", l, h.prefillComputed)
}
