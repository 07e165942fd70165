package vllm

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/supervisor"
)

// cue is a piece of a log line that tells a start-up phase. Trade-off: vLLM
// promises none of these lines, so they are short, and a line that matches
// nothing changes nothing. What comes of them is only ever displayed.
type cue struct {
	text   string // substring; the first cue that matches counts
	phase  string
	detail string
	read   func(line string, p *supervisor.Phase) // takes numbers out of the line; may be nil
}

// cues in the order of start-up, of vLLM 0.24 to 0.32. Versions name the ones
// that came or went.
var cues = []cue{
	{text: "version ", phase: supervisor.PhaseSpawn, read: readBanner}, // 0.32: in the logo
	{text: "vLLM API server version", phase: supervisor.PhaseSpawn, detail: "reading the configuration"},
	{text: "vLLM server version", phase: supervisor.PhaseSpawn, detail: "reading the configuration"}, // 0.32 without logo
	{text: "Resolved architecture", phase: supervisor.PhaseSpawn, detail: "reading the configuration"},
	{text: "Initializing a V1 LLM engine", phase: supervisor.PhaseSpawn, detail: "engine process"},

	{text: "Time spent downloading weights", phase: supervisor.PhaseWeights, detail: "downloaded"},
	{text: "Fetching ", phase: supervisor.PhaseWeights, detail: "downloading", read: readBar},
	{text: "Starting to load model", phase: supervisor.PhaseWeights},
	{text: "Loading model from scratch", phase: supervisor.PhaseWeights}, // Model Runner V2
	{text: "checkpoint shards", phase: supervisor.PhaseWeights, detail: "shards", read: readBar},
	{text: "Loading safetensors using", phase: supervisor.PhaseWeights, detail: "shards", read: readBar},
	{text: "Loading weights took", phase: supervisor.PhaseWeights, detail: "loaded"},
	{text: "Initializing model took", phase: supervisor.PhaseWeights, detail: "loaded"}, // CPU
	{text: "Model loading took", phase: supervisor.PhaseWeights, read: readAfter("Model loading took ", " memory")},

	{text: "Using cache directory:", phase: supervisor.PhaseCompile},
	{text: "Dynamo bytecode transform time", phase: supervisor.PhaseCompile, detail: "first run only, then cached"},
	{text: "Compiling a graph", phase: supervisor.PhaseCompile, detail: "first run only, then cached"},
	{text: "Directly load", phase: supervisor.PhaseCompile, detail: "loaded from cache"},
	{text: "torch.compile t", phase: supervisor.PhaseCompile, detail: "done"},
	{text: "torch.compile and initial profiling", phase: supervisor.PhaseCompile, detail: "done"},
	{text: "Warming up model for the compilation", phase: supervisor.PhaseCompile}, // CPU

	{text: "Initial profiling/warmup run took", phase: supervisor.PhaseProfile},
	{text: "Estimated CUDA graph memory", phase: supervisor.PhaseProfile},
	{text: "Available KV cache memory", phase: supervisor.PhaseProfile},
	{text: "KV cache size:", phase: supervisor.PhaseProfile, read: readKV}, // "GPU KV…" or "CPU KV…"

	{text: "Capturing CUDA graph", phase: supervisor.PhaseGraphs, read: readBar},
	{text: "Graph capturing finished", phase: supervisor.PhaseGraphs, detail: "done"},

	{text: "init engine (profile, create kv cache, warmup model) took", phase: supervisor.PhaseServe, detail: "engine is up"},
	{text: "Starting vLLM server on", phase: supervisor.PhaseServe},
	{text: "Starting vLLM API server", phase: supervisor.PhaseServe},
	{text: "Application startup complete", phase: supervisor.PhaseServe},
}

// Phase recognises a start-up phase in one log line. Whether it may follow the
// phase before is the supervisor's business.
func (e *Engine) Phase(line string) (supervisor.Phase, bool) {
	for _, c := range cues {
		if !strings.Contains(line, c.text) {
			continue
		}
		p := supervisor.Phase{Name: c.phase, Detail: c.detail}
		if c.read != nil {
			c.read(line, &p)
		}
		if p.Name == "" {
			continue // the cue looked closer and did not mean this line
		}
		return p, true
	}
	return supervisor.Phase{}, false
}

var (
	// The logo's second line: "█  version 0.32.0".
	banner = regexp.MustCompile(`█\s+version (\d+\.\d+\S*)`)
	// tqdm: "…:  56% Completed | 5/9 [00:01<00:01, 3.1it/s]" or "…: 80%|██ | 41/51 [".
	bar      = regexp.MustCompile(`\|\s*(\d+)/(\d+)\b`)
	kvTokens = regexp.MustCompile(`KV cache size: ([\d,]+) tokens`)
)

func readBanner(line string, p *supervisor.Phase) {
	m := banner.FindStringSubmatch(line)
	if m == nil {
		p.Name = ""
		return
	}
	p.Detail = "vLLM " + m[1]
}

func readBar(line string, p *supervisor.Phase) {
	m := bar.FindStringSubmatch(line)
	if m == nil {
		return
	}
	done, err1 := strconv.Atoi(m[1])
	total, err2 := strconv.Atoi(m[2])
	if err1 == nil && err2 == nil && total > 0 && done <= total {
		p.Done, p.Total = done, total
	}
}

func readKV(line string, p *supervisor.Phase) {
	m := kvTokens.FindStringSubmatch(line)
	if m == nil {
		p.Name = ""
		return
	}
	if n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", "")); err == nil {
		p.KVTokens = n
	}
}

// readAfter makes what stands between two texts the detail.
func readAfter(before, after string) func(string, *supervisor.Phase) {
	return func(line string, p *supervisor.Phase) {
		_, rest, _ := strings.Cut(line, before)
		detail, _, found := strings.Cut(rest, after)
		const longest = 40
		if found && len(detail) <= longest {
			p.Detail = detail
		}
	}
}
