package simengine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/lm-warden/warden/supervisor/simengine/fault"
	"github.com/lm-warden/warden/supervisor/simengine/metrics"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

// moment is one log line of a start, at a share of the load time.
type moment struct {
	at     float64 // 0 to 1
	source source
	file   string
	text   string // with {placeholders}
	bar    int    // > 0: a progress bar of so many steps, until the next moment
}

// moments follow a warm start of vLLM 0.32 on one GPU. Everything says that it
// is simulated in its first lines.
var moments = []moment{
	{0, apiServer, "api_utils.py:328", "vLLM server version {version}, serving model {model}", 0},
	{0, apiServer, "simengine", prompt.Label + ": this is no vLLM; no GPU and no model are used. Profile {profile} ({source})", 0},
	{0, apiServer, "api_utils.py:286", "non-default args: {{args}}", 0},
	{0.05, apiServer, "model.py:733", "Resolved architecture: SimulatedForCausalLM", 0},
	{0.05, apiServer, "model.py:2152", "Using max model len {len}", 0},
	{0.05, apiServer, "scheduler.py:308", "Chunked prefill is enabled with max_num_batched_tokens={batched}.", 0},
	{0.1, engineCore, "core.py:133", "Initializing a V1 LLM engine (v{version}) with config: model='{model}', served_model_name={served}", 0},
	{0.12, engineCore, "gpu_model_runner.py:5040", "Starting to load model {model}...", 0},
	{0.15, engineCore, "", "Loading safetensors checkpoint shards", 3},
	{0.4, engineCore, "default_loader.py:502", "Loading weights took {weights} seconds", 0},
	{0.4, engineCore, "gpu_model_runner.py:5150", "Model loading took {gib} GiB memory and {weights} seconds", 0},
	{0.45, engineCore, "backends.py:653", "Using cache directory: ~/.cache/vllm/torch_compile_cache/simulated/rank_0_0/backbone for vLLM's torch.compile", 0},
	{0.5, engineCore, "backends.py:1167", "Dynamo bytecode transform time: {dynamo} s", 0},
	{0.55, engineCore, "backends.py:296", "Directly load the compiled graph(s) for compile range (1, {batched}) from the cache, took {dynamo} s", 0},
	{0.6, engineCore, "gpu_worker.py:760", "Available KV cache memory: {kvgib} GiB", 0},
	{0.65, engineCore, "kv_cache_utils.py:2327", "GPU KV cache size: {kv} tokens, Maximum concurrency for {lencomma} tokens per request: {concurrency}x", 0},
	{0.7, engineCore, "", "Capturing CUDA graphs", 11},
	{0.95, engineCore, "gpu_model_runner.py:6582", "Graph capturing finished in {graphs} secs, took 0.61 GiB", 0},
	{0.95, engineCore, "core.py:402", "init engine (profile, create kv cache, warmup model) took {init} s", 0},
	{1, apiServer, "entry.py:136", "Supported tasks: ['generate', 'embed']", 0},
	{1, apiServer, "entry.py:140", "Starting vLLM server on {address}", 0},
}

func (c *config) placeholders(address string) *strings.Replacer {
	o, cfg := c.server, c.server.Engine
	seconds := func(share float64) string { return fmt.Sprintf("%.2f", c.load.Seconds()*share) }
	tokens, concurrency := metrics.Capacity(cfg)
	batched := cfg.MaxBatchedTokens
	if batched == 0 {
		batched = 2048
	}
	return strings.NewReplacer(
		"{version}", o.Version, "{model}", o.Model, "{served}", o.Served[0], "{profile}", c.profile.Name, "{source}", c.profile.Source,
		"{{args}}", c.nonDefault(), "{len}", fmt.Sprint(cfg.MaxModelLen), "{lencomma}", humanize.Comma(int64(cfg.MaxModelLen)),
		"{batched}", fmt.Sprint(batched), "{kv}", humanize.Comma(int64(tokens)),
		"{kvgib}", fmt.Sprintf("%.2f", float64(cfg.Blocks*cfg.BlockSize*c.profile.TokenBytes)/(1<<30)),
		"{concurrency}", fmt.Sprintf("%.2f", concurrency),
		"{gib}", fmt.Sprintf("%.2f", c.profile.WeightsGiB),
		"{weights}", seconds(0.25), "{dynamo}", seconds(0.05), "{graphs}", fmt.Sprintf("%.0f", c.load.Seconds()*0.25), "{init}", seconds(0.5),
		"{address}", address,
	)
}

// secretFlags never show their values.
var secretFlags = []string{"--api-key", "--hf-token"}

func (c *config) nonDefault() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.given.values)) {
		value := strings.Join(c.given.values[name], " ")
		if slices.Contains(secretFlags, name) {
			value = "***"
		}
		key := strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_")
		parts = append(parts, fmt.Sprintf("'%s': '%s'", key, value))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// play writes the lines over the load time and reports whether it got to the
// end.
func (c *config) play(ctx context.Context, log *logger, address string) bool {
	fill, start := c.placeholders(address), time.Now()
	until := func(at float64) bool {
		return fault.Sleep(ctx, time.Until(start.Add(time.Duration(float64(c.load)*at))))
	}
	for i, m := range moments {
		if !until(m.at) {
			return false
		}
		if m.bar == 0 {
			log.write(m.source, "INFO", m.file, fill.Replace(m.text))
			continue
		}
		span := moments[i+1].at - m.at
		for n := 0; n <= m.bar; n++ {
			if !until(m.at + span*float64(n)/float64(m.bar)) {
				return false
			}
			log.bar(m.text, n, m.bar)
		}
	}
	return true
}
