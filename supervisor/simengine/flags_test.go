package simengine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/simengine/core"
)

func TestParseArguments(t *testing.T) {
	tests := []struct {
		name, line string
		model      string
		values     map[string][]string
		err        string
	}{
		{"model only", "serve org/model", "org/model", map[string][]string{}, ""},
		{"many values then a flag", "serve m --served-model-name a b --uds /s", "m", map[string][]string{"--served-model-name": {"a", "b"}, "--uds": {"/s"}}, ""},
		{"equals, underscores, alias", "serve m --max_model_len=16k -tp 2", "m", map[string][]string{"--max-model-len": {"16k"}, "--tensor-parallel-size": {"2"}}, ""},
		{"negative number", "serve m --max-model-len -1", "m", map[string][]string{"--max-model-len": {"-1"}}, ""},
		{"switch takes nothing", "serve --enforce-eager m", "m", map[string][]string{"--enforce-eager": {"true"}}, ""},
		{"no form", "serve m --no-enable-prefix-caching", "m", map[string][]string{"--enable-prefix-caching": {"false"}}, ""},
		{"last one counts", "serve m --port 1 --port 2", "m", map[string][]string{"--port": {"2"}}, ""},
		{"dotted JSON flag", "serve m --compilation-config.mode none", "m", map[string][]string{"--compilation-config": {"none"}}, ""},
		{"short optimization", "serve m -O3", "m", map[string][]string{"--optimization-level": {"true"}}, ""},
		{"faults add up", "serve m --sim-fault a=1 --sim-fault b=2", "m", map[string][]string{"--sim-fault": {"a=1", "b=2"}}, ""},
		{"unknown flags", "serve m --no-such-flag 5 --other", "", nil, "unrecognized arguments: --no-such-flag 5 --other"},
		{"removed flag", "serve m --disable-log-requests", "", nil, "unrecognized arguments: --disable-log-requests"},
		{"no of a switch", "serve m --no-disable-log-stats", "", nil, "unrecognized arguments: --no-disable-log-stats"},
		{"two models", "serve m n", "", nil, "unrecognized arguments: n"},
		{"missing value", "serve m --uds", "", nil, "argument --uds: expected one argument"},
		{"missing values", "serve m --served-model-name --port 1", "", nil, "argument --served-model-name: expected at least one argument"},
		{"value of a switch", "serve m --enforce-eager=1", "", nil, "ignored explicit argument"},
		{"other sub-command", "bench", "", nil, "only knows the sub-command serve"},
		{"nothing", "", "", nil, "only knows the sub-command serve"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseArguments(strings.Fields(tt.line))
			if tt.err != "" {
				var usage *usageError
				if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got.model != tt.model {
				t.Errorf("model %q, error %v", got.model, err)
			}
			if diff := cmp.Diff(tt.values, got.values); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The table must know what warden and its documentation pass to vLLM.
func TestTableKnowsWhatIsPassed(t *testing.T) {
	table := flagTable()
	for name, kind := range map[string]flagKind{
		"--served-model-name": kindMany, "--uds": kindOne, "--host": kindOne, "--port": kindOne, "--max-num-seqs": kindOne,
		"--max-num-batched-tokens": kindOne, "--max-model-len": kindOne, "--enable-prompt-tokens-details": kindBool,
		"--tensor-parallel-size": kindOne, "--block-size": kindOne, "--num-gpu-blocks-override": kindOne,
		"--kv-cache-memory-bytes": kindOne, "--dtype": kindOne, "--enforce-eager": kindBool, "--load-format": kindOne,
		"--disable-uvicorn-access-log": kindBool, "--disable-access-log-for-endpoints": kindOne, "--scheduling-policy": kindOne,
		"--shutdown-timeout": kindOne, "--api-key": kindMany, "--kv-offloading-size": kindOne, "--long-prefill-token-threshold": kindOne,
		"--override-generation-config": kindOne, "--enable-auto-tool-choice": kindBool, "--tool-call-parser": kindOne,
		"--gpu-memory-utilization": kindOne, "--quantization": kindOne, "--seed": kindOne, "--watermark": kindOne,
		"--distributed-executor-backend": kindOne, "--chat-template": kindOne, "--reasoning-parser": kindOne,
	} {
		if got := table[name].kind; got != kind {
			t.Errorf("%s takes %q, want %q", name, got, kind)
		}
	}
}

func TestConfig(t *testing.T) {
	tests := []struct {
		name, line string
		check      func(c config) (got, want any)
		err        string
	}{
		{"auto length fits the cache", "serve m --max-model-len auto", func(c config) (any, any) { return c.server.Engine.MaxModelLen, 2499 * 16 }, ""},
		{"auto length of a small model", "serve m --sim-profile cpu-heavy --num-gpu-blocks-override 9000 --max-model-len -1", func(c config) (any, any) { return c.server.Engine.MaxModelLen, 32_768 }, ""},
		{"thousands", "serve m --max-model-len 25.6k", func(c config) (any, any) { return c.server.Engine.MaxModelLen, 25_600 }, ""},
		{"binary thousands", "serve m --max-model-len 16K", func(c config) (any, any) { return c.server.Engine.MaxModelLen, 16_384 }, ""},
		{"other block size, same cache", "serve m --block-size 32", func(c config) (any, any) { return c.server.Engine.Blocks, 1250 }, ""},
		{"cache by bytes", "serve m --kv-cache-memory-bytes 1G", func(c config) (any, any) { return c.server.Engine.Blocks, 455 }, ""},
		{"cache by blocks", "serve m --kv-cache-memory-bytes 1G --num-gpu-blocks-override 1250", func(c config) (any, any) { return c.server.Engine.Blocks, 1250 }, ""},
		{"host tier", "serve m --sim-profile a4000-qwen3-4b --kv-offloading-size 16", func(c config) (any, any) { return c.server.Engine.Host.Tokens, 116_508 }, ""},
		{"speed", "serve m --sim-profile a4000-qwen3-4b --sim-speed 3", func(c config) (any, any) { return c.server.Engine.Cost.Floor, 7 * time.Millisecond }, ""},
		{"priority", "serve m --scheduling-policy priority", func(c config) (any, any) { return c.server.Engine.Priority, true }, ""},
		{"chunk-only", "serve m --no-scheduler-reserve-full-isl", func(c config) (any, any) { return c.server.Engine.ChunkOnlyAdmission, true }, ""},
		{"active sequences", "serve m --max-num-seqs 32 --max-num-active-seqs 4", func(c config) (any, any) { return c.server.Engine.MaxNumSeqs, 4 }, ""},
		{"names", "serve m --served-model-name a b", func(c config) (any, any) { return strings.Join(c.server.Served, " "), "a b" }, ""},
		{"name of the model", "serve m", func(c config) (any, any) { return strings.Join(c.server.Served, " "), "m" }, ""},
		{"older version", "serve m --sim-dialect 0.26", func(c config) (any, any) { return c.server.Version, "0.26.0+SIMULATED" }, ""},
		{"load time of the profile", "serve m --sim-profile a4000-qwen3-4b", func(c config) (any, any) { return c.load, 45 * time.Second }, ""},
		{"fault", "serve m --sim-fault error=503:0.5", func(c config) (any, any) { return c.faults["error"], "503:0.5" }, ""},
		{"bad number", "serve m --max-num-seqs many", nil, "argument --max-num-seqs: invalid int value: 'many'"},
		{"bad length", "serve m --max-model-len 16q", nil, "argument --max-model-len: invalid human_readable_int value: '16q'"},
		{"bad duration", "serve m --sim-load soon", nil, "argument --sim-load: invalid duration value: 'soon'"},
		{"bad choice", "serve m --scheduling-policy lifo", nil, "argument --scheduling-policy: invalid choice: 'lifo' (choose from 'fcfs', 'priority')"},
		{"bad profile", "serve m --sim-profile h100", nil, "unknown profile"},
		{"bad fault", "serve m --sim-fault stall", nil, "'stall' is not KEY=VALUE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := newConfig(strings.Fields(tt.line))
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, want := tt.check(c); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
}

func TestLengthsThatDoNotFit(t *testing.T) {
	for line, want := range map[string]string{
		"serve m":                                     "the estimated maximum model length is 39984", // the model's own length
		"serve m --max-model-len 40000":               "To serve at least one request with the model's max seq len (40000)",
		"serve m --max-model-len 1000000":             "is greater than the derived max_model_len",
		"serve m --kv-cache-memory-bytes 1M":          "No available memory for the cache blocks",
		"serve m --max-model-len 16k --block-size 32": "",
	} {
		c, err := newConfig(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		err = c.checkLengths()
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

func TestSecretsStayOutOfTheLog(t *testing.T) {
	c, err := newConfig(strings.Fields("serve m --api-key s3cret t0psecret --uds /s"))
	if err != nil {
		t.Fatal(err)
	}
	got := c.nonDefault()
	if strings.Contains(got, "secret") || strings.Contains(got, "s3cret") || !strings.Contains(got, "'uds': '/s'") {
		t.Error(got)
	}
}

func FuzzArguments(f *testing.F) {
	f.Add("serve m --served-model-name a b --uds /s --max-model-len auto --no-enable-prefix-caching -O3")
	f.Add("serve --sim-fault exit=1:5s m --max_model_len=16k -- -x --compilation-config.mode=none")
	f.Fuzz(func(t *testing.T, line string) {
		c, err := newConfig(strings.Fields(line))
		var usage *usageError
		if err != nil {
			if !errors.As(err, &usage) {
				t.Fatalf("%q: %v is no usage error", line, err)
			}
			return
		}
		if c.checkLengths() == nil {
			if cfg := c.server.Engine; cfg.Blocks > 1<<20 {
				return // valid and too large to try here
			}
			if _, err := core.New(c.server.Engine); err != nil && !strings.Contains(err.Error(), "watermark") {
				t.Fatalf("%q passed the checks and failed later: %v", line, err)
			}
		}
	})
}
