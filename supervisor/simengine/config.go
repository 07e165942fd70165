package simengine

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/simengine/core"
	"github.com/lm-warden/warden/supervisor/simengine/prompt"
	"github.com/lm-warden/warden/supervisor/simengine/server"
)

// config is everything that a command line decides.
type config struct {
	server  server.Options
	profile core.Profile
	uds     string // path of the unix socket; "" = TCP
	host    string
	port    int
	load    time.Duration
	drain   time.Duration // --shutdown-timeout
	tree    string
	orphan  time.Duration
	faults  map[string]string
	access  accessLog
	given   arguments
}

// defaultOrphanLimit bounds the life of an EngineCore whose API server is
// gone. Real ones live on for ever; a simulated one must not outlast its test.
const defaultOrphanLimit = 10 * time.Minute

// The shapes of the process tree.
const (
	treeGroup      = "group"       // vLLM's: EngineCore in the API server's process group
	treeSetsid     = "setsid"      // EngineCore in a session of its own
	treeDoubleFork = "double-fork" // EngineCore adopted by init, in a session of its own
	treeNone       = "none"        // one process
)

// reader collects the first error of many conversions.
type reader struct {
	*arguments
	err error
}

func (r *reader) fail(name, value, want string) {
	if r.err == nil {
		r.err = &usageError{fmt.Sprintf("argument %s: invalid %s value: '%s'", name, want, value)}
	}
}

func (r *reader) integer(name string, fallback int) int {
	value := r.last(name)
	if value == "" {
		return fallback
	}
	n, err := strconv.Atoi(strings.ReplaceAll(value, "_", ""))
	if err != nil || n < 0 {
		r.fail(name, value, "int")
	}
	return n
}

func (r *reader) decimal(name string, fallback float64) float64 {
	value := r.last(name)
	if value == "" {
		return fallback
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n >= 0) || math.IsInf(n, 1) {
		r.fail(name, value, "float")
	}
	return n
}

func (r *reader) duration(name string, fallback time.Duration) time.Duration {
	value := r.last(name)
	if value == "" {
		return fallback
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 {
		r.fail(name, value, "duration")
	}
	return d
}

func (r *reader) choice(name, fallback string, allowed ...string) string {
	value := r.last(name)
	if value == "" {
		return fallback
	}
	for _, a := range allowed {
		if value == a {
			return value
		}
	}
	if r.err == nil {
		r.err = &usageError{fmt.Sprintf("argument %s: invalid choice: '%s' (choose from '%s')", name, value, strings.Join(allowed, "', '"))}
	}
	return fallback
}

// magnitudes are vLLM's suffixes: a small letter counts in thousands, a capital
// one in 1024s.
var magnitudes = map[byte]float64{
	'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12,
	'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40,
}

// human reads 16384, 16k, 25.6k and 16K.
func (r *reader) human(name string) int {
	value := r.last(name)
	text, scale := value, 1.0
	if value == "" {
		return 0
	}
	if m, ok := magnitudes[value[len(value)-1]]; ok {
		text, scale = value[:len(value)-1], m
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n > 0) || n*scale > 1e15 {
		r.fail(name, value, "human_readable_int")
		return 0
	}
	return int(n * scale)
}

// newConfig reads a command line.
func newConfig(args []string) (config, error) {
	given, err := parseArguments(args)
	if err != nil {
		return config{}, err
	}
	r := &reader{arguments: &given}
	profile, err := core.FindProfile(r.last("--sim-profile"))
	if err != nil {
		return config{}, &usageError{"argument --sim-profile: " + err.Error()}
	}
	c := config{
		profile: profile, given: given,
		uds: r.last("--uds"), host: r.last("--host"), port: r.integer("--port", defaultPort),
		load:   r.duration("--sim-load", profile.Load),
		drain:  time.Duration(r.integer("--shutdown-timeout", 0)) * time.Second,
		tree:   r.choice("--sim-tree", treeGroup, treeGroup, treeSetsid, treeDoubleFork, treeNone),
		orphan: r.duration("--sim-orphan-limit", defaultOrphanLimit),
		access: newAccessLog(&given),
		faults: make(map[string]string),
	}
	for _, fault := range given.values["--sim-fault"] {
		key, value, ok := strings.Cut(fault, "=")
		if !ok {
			return config{}, &usageError{fmt.Sprintf("argument --sim-fault: '%s' is not KEY=VALUE", fault)}
		}
		c.faults[key] = value
	}
	if c.port > 65_535 {
		r.fail("--port", r.last("--port"), "port")
	}
	c.server = serverOptions(r, profile)
	return c, r.err
}

const defaultPort = 8000

func serverOptions(r *reader, profile core.Profile) server.Options {
	o := server.Options{
		Model:               r.model,
		Served:              r.values["--served-model-name"],
		Dialect:             server.Dialect(r.choice("--sim-dialect", string(server.V032), string(server.V032), string(server.V026))),
		Seed:                uint64(r.integer("--sim-seed", r.integer("--seed", 0))),
		Words:               r.integer("--sim-words", 0),
		PromptTokensDetails: r.on("--enable-prompt-tokens-details"),
		ForceIncludeUsage:   r.on("--enable-force-include-usage"),
		NoFingerprint:       r.last("--fingerprint-mode") == "none",
		SystemAnywhere:      r.last("--chat-template") != "",
		APIKeys:             r.values["--api-key"],
		MaxQueuedRequests:   r.integer("--max-num-queued-reqs", 0),
		Engine:              engineConfig(r, profile),
	}
	if o.Model == "" {
		o.Model = r.last("--model")
	}
	if r.choice("--sim-tokenizer", "words", "words", "bytes") == "bytes" {
		o.Tokenizer = prompt.Bytes
	}
	return o.WithDefaults()
}

func engineConfig(r *reader, profile core.Profile) core.Config {
	cfg := core.Config{
		BlockSize:            r.integer("--block-size", profile.BlockSize),
		Blocks:               profile.Blocks,
		MaxNumSeqs:           r.integer("--max-num-seqs", 0),
		MaxBatchedTokens:     r.human("--max-num-batched-tokens"),
		LongPrefillThreshold: r.integer("--long-prefill-token-threshold", 0),
		ChunkOnlyAdmission:   r.last("--scheduler-reserve-full-isl") == "false",
		NoPrefixCache:        r.last("--enable-prefix-caching") == "false",
		Priority:             r.choice("--scheduling-policy", "fcfs", "fcfs", "priority") == "priority",
		Watermark:            r.decimal("--watermark", 0),
		Cost:                 profile.Cost,
	}
	if active := r.integer("--max-num-active-seqs", 0); active > 0 {
		cfg.MaxNumSeqs = active
	}
	if cfg.BlockSize == 0 {
		cfg.BlockSize = profile.BlockSize
	}
	cfg.Blocks = profile.Blocks * profile.BlockSize / cfg.BlockSize
	if bytes := r.human("--kv-cache-memory-bytes"); bytes > 0 {
		cfg.Blocks = bytes / (profile.TokenBytes * cfg.BlockSize)
	}
	cfg.Blocks = r.integer("--num-gpu-blocks-override", cfg.Blocks)
	if gib := r.decimal("--kv-offloading-size", 0); gib > 0 {
		cfg.Host.Tokens = int(gib * (1 << 30) / float64(profile.TokenBytes))
		cfg.Host.TokensPerSecond = profile.HostBytesPerSecond / float64(profile.TokenBytes)
	}
	if speed := r.decimal("--sim-speed", 1); speed > 0 {
		cfg.Cost = cfg.Cost.Scaled(speed)
		cfg.Host.TokensPerSecond *= speed
	}
	cfg.MaxModelLen = profile.ModelLen
	switch value := r.last("--max-model-len"); value {
	case "":
	case "auto", "-1":
		cfg.MaxModelLen = min(profile.ModelLen, cfg.Capacity())
	default:
		cfg.MaxModelLen = r.human("--max-model-len")
	}
	return cfg
}

// checkLengths fails as vLLM does when the context does not fit. The error's
// text is what vLLM's last log lines say.
func (c *config) checkLengths() error {
	cfg := c.server.Engine
	switch {
	case cfg.Blocks < 2:
		return fmt.Errorf("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine")
	case cfg.MaxModelLen > c.profile.ModelLen:
		return fmt.Errorf("ValueError: User-specified max_model_len (%d) is greater than the derived max_model_len (max_position_embeddings=%d or model_max_length=None in model's config.json)", cfg.MaxModelLen, c.profile.ModelLen)
	case cfg.MaxModelLen > cfg.Capacity():
		gib := func(tokens int) float64 { return float64(tokens*c.profile.TokenBytes) / (1 << 30) }
		return fmt.Errorf("ValueError: To serve at least one request with the model's max seq len (%d), (%.2f GiB KV cache is needed, which is larger than the available KV cache memory (%.2f GiB). "+
			"Based on the available memory, the estimated maximum model length is %d. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine",
			cfg.MaxModelLen, gib(cfg.MaxModelLen), gib(cfg.Capacity()), cfg.Capacity())
	}
	return nil
}
