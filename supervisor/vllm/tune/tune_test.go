package tune

import (
	"errors"
	"strings"
	"testing"
)

const qwen = `{"architectures":["Qwen3ForCausalLM"],"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,
	"hidden_size":2560,"head_dim":128,"max_position_embeddings":262144,"sliding_window":null,"use_sliding_window":false,"torch_dtype":"bfloat16"}`

func TestParseModel(t *testing.T) {
	tests := []struct {
		name, config string
		bytes        int // of one token on one GPU
		hybrid       string
	}{
		{"Qwen3-4B", qwen, 147456, ""},
		{"no KV heads named: as many as attention heads", `{"num_hidden_layers":2,"num_attention_heads":4,"hidden_size":64}`, 2 * 2 * 4 * 16 * 2, ""},
		{"one KV head", `{"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":1,"head_dim":8}`, 2 * 2 * 8 * 2, ""},
		{"window off", `{"num_hidden_layers":1,"num_attention_heads":1,"head_dim":1,"sliding_window":4096,"use_sliding_window":false}`, 4, ""},
		{"window of all layers", `{"num_hidden_layers":1,"num_attention_heads":1,"head_dim":1,"sliding_window":4096}`, 4, "sliding attention layers"},
		{"gpt-oss", `{"num_hidden_layers":24,"num_attention_heads":64,"num_key_value_heads":8,"head_dim":64,"sliding_window":128,
			"layer_types":["sliding_attention","full_attention"]}`, 2 * 24 * 8 * 64 * 2, "sliding attention layers"},
		{"all layers full", `{"num_hidden_layers":1,"num_attention_heads":1,"head_dim":1,"sliding_window":4096,"layer_types":["full_attention"]}`, 4, ""},
		{"Qwen3-Next", `{"num_hidden_layers":48,"num_attention_heads":16,"num_key_value_heads":2,"head_dim":256,"full_attention_interval":4}`, 98304, "state-space or linear layers"},
		{"Nemotron-H", `{"num_hidden_layers":52,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"hybrid_override_pattern":"M-M*"}`, 212992, "state-space or linear layers"},
		{"text part of a model with pictures", `{"vision_config":{},"text_config":` + qwen + `}`, 147456, ""},
		{"linear layers in the text part", `{"text_config":{"num_hidden_layers":1,"num_attention_heads":1,"head_dim":1,"linear_num_key_heads":16}}`, 4, "state-space or linear layers"},
		{"MLA", `{"num_hidden_layers":27,"num_attention_heads":16,"kv_lora_rank":512,"qk_rope_head_dim":64}`, 27 * 576 * 2, ""},
		{"nothing said", `{}`, 0, ""},
		{"damaged", `{"num_hidden_layers":-1,"num_attention_heads":9999999,"head_dim":128}`, 0, ""},
	}
	for _, tt := range tests {
		m, err := ParseModel([]byte(tt.config))
		if err != nil || m.KVBytes(1) != tt.bytes || m.Hybrid != tt.hybrid || m.Known() != (tt.bytes > 0) {
			t.Errorf("%s: %+v, %d bytes a token, %v; want %d bytes, hybrid %q", tt.name, m, m.KVBytes(1), err, tt.bytes, tt.hybrid)
		}
	}
	if _, err := ParseModel([]byte(`{`)); err == nil {
		t.Error("half a file was read")
	}
}

// KV heads are shared out over GPUs until each has one; from there on they are
// copied, and the replica's GPUs together need more.
func TestKVBytesOverGPUs(t *testing.T) {
	m, err := ParseModel([]byte(qwen))
	if err != nil {
		t.Fatal(err)
	}
	for tp, want := range map[int]int{0: 147456, 1: 147456, 2: 147456, 8: 147456, 16: 2 * 147456} {
		if got := m.KVBytes(tp); got != want {
			t.Errorf("tp %d: %d, want %d", tp, got, want)
		}
	}
}

func FuzzParseModel(f *testing.F) {
	f.Add([]byte(qwen))
	f.Add([]byte(`{"text_config":{"text_config":{}},"layer_types":[""]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := ParseModel(raw)
		if err == nil && m.KVBytes(8) < 0 {
			t.Errorf("%d bytes a token: %+v", m.KVBytes(8), m)
		}
	})
}

// a4000 is one RTX A4000 of the reference machine, with Qwen3-4B and 100 GiB of
// free memory.
func a4000(change func(*Facts)) Facts {
	m, err := ParseModel([]byte(qwen))
	if err != nil {
		panic(err)
	}
	f := Facts{
		Version: "0.32.0", Platform: CUDA, Model: m, WeightsBytes: 8_000_000_000, GPUMemory: 16_880_000_000,
		ComputeCap: [2]int{8, 6}, TP: 1, Replicas: 4, Host: Host{Free: 300 << 30, Shm: 150 << 30},
	}
	if change != nil {
		change(&f)
	}
	return f
}

// args makes the user's arguments of pairs.
func args(pairs ...string) func(string) (string, bool) {
	return func(flag string) (string, bool) {
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i] == flag {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestEstimateKVTokens(t *testing.T) {
	tests := []struct {
		name     string
		facts    Facts
		min, max int
	}{
		{"the reference machine has 36,000 to 42,000", a4000(nil), 36_000, 42_000},
		{"fp8 doubles it", a4000(func(f *Facts) { f.Args = args("--kv-cache-dtype", "fp8_e4m3") }), 72_000, 84_000},
		{"less of the GPU", a4000(func(f *Facts) { f.Args = args("--gpu-memory-utilization", "0.8") }), 24_000, 28_000},
		{"two GPUs", a4000(func(f *Facts) { f.TP = 2 }), 128_000, 140_000},
		{"an exact size", a4000(func(f *Facts) { f.Args = args("--kv-cache-memory-bytes", "2G") }), 0, 0},
		{"no room", a4000(func(f *Facts) { f.WeightsBytes = 16_000_000_000 }), 0, 0},
		{"unknown KV type", a4000(func(f *Facts) { f.Args = args("--kv-cache-dtype", "nvfp4") }), 0, 0},
		{"unknown weights", a4000(func(f *Facts) { f.WeightsBytes = 0 }), 0, 0},
		{"from the catalogue", a4000(func(f *Facts) { f.Model, f.KVPerToken = Model{}, 147456 }), 36_000, 42_000},
		{"nothing known", Facts{}, 0, 0},
	}
	for _, tt := range tests {
		if got := EstimateKVTokens(tt.facts); got < tt.min || got > tt.max {
			t.Errorf("%s: %d, want %d to %d", tt.name, got, tt.min, tt.max)
		}
	}
}

func TestTypicalSessions(t *testing.T) {
	for tokens, want := range map[int]float64{0: 0, 3_500: 0, 14_500: 1, 36_500: 3} {
		if got := TypicalSessions(tokens); got != want {
			t.Errorf("%d tokens: %v, want %v", tokens, got, want)
		}
	}
}

func TestDecideTier(t *testing.T) {
	asked := func(gib float64) func(*Facts) { return func(f *Facts) { f.Offload.GiB = gib } }
	tests := []struct {
		name    string
		facts   Facts
		gib     float64
		tokens  int
		reason  string
		warning string
	}{
		{"auto with room", a4000(nil), 16, 116_508, "a quarter of the 300.0 GiB free memory, for 4 replicas", ""},
		{"less than twice the cache", a4000(func(f *Facts) { f.Host.Free = 100 << 30 }), 0, 0, "less than twice the KV cache (about 5", ""},
		{"between", a4000(func(f *Facts) { f.Host.Free = 200 << 30 }), 12, 87_381, "a quarter", ""},
		{"fewer replicas have more each", a4000(func(f *Facts) { f.Host.Free, f.Replicas = 100<<30, 2 }), 12, 87_381, "for 2 replicas", ""},
		{"little /dev/shm", a4000(func(f *Facts) { f.Host.Shm = 64 << 20 }), 0, 0, "gains nothing", ""},
		{"configured off", a4000(func(f *Facts) { f.Offload.Off = true }), 0, 0, "off as configured", ""},
		{"hybrid deaths of 0.27.1", a4000(func(f *Facts) { f.Version = "0.27.1" }), 0, 0, "0.30 repaired it", ""},
		{"0.30 is the first", a4000(func(f *Facts) { f.Version = "0.30.0" }), 16, 116_508, "a quarter", ""},
		{"1.0 is newer", a4000(func(f *Facts) { f.Version = "1.0.0" }), 16, 116_508, "a quarter", ""},
		{"unknown version", a4000(func(f *Facts) { f.Version = "" }), 0, 0, "version of this vLLM is not known", ""},
		{"hybrid model", a4000(func(f *Facts) { f.Model.Hybrid = "sliding attention layers" }), 0, 0, "off: the model has sliding attention layers", ""},
		{"unknown model", a4000(func(f *Facts) { f.Model = Model{} }), 0, 0, "config.json is not on this disk yet", ""},
		{"catalogue knows the model", a4000(func(f *Facts) { f.Model, f.KVPerToken = Model{}, 147456 }), 16, 116_508, "a quarter", ""},
		{"unknown KV size", a4000(func(f *Facts) { f.WeightsBytes = 0 }), 0, 0, "name a size", ""},
		{"free memory unknown", a4000(func(f *Facts) { f.Host = Host{} }), 0, 0, "cannot be read", ""},
		{"CPU build", a4000(func(f *Facts) { f.Platform = CPU }), 0, 0, "CPU build has none", ""},
		{"simulated", a4000(func(f *Facts) { f.Platform = Simulated }), 0, 0, "name a size to try it", ""},
		{"a large cache has a large tier", a4000(func(f *Facts) { f.GPUMemory, f.Host.Free, f.Replicas = 48<<30, 2000<<30, 1; f.Host.Shm = 1000 << 30 }), 103, 750_023, "at most three times", ""},

		{"asked", a4000(asked(8)), 8, 58_254, "as configured", ""},
		{"asked, old version: allowed, told", a4000(func(f *Facts) { f.Offload.GiB, f.Version = 8, "0.27.1" }), 8, 58_254, "as configured", "0.30 repaired it"},
		{"asked, simulated", a4000(func(f *Facts) { f.Offload.GiB, f.Platform, f.Host = 8, Simulated, Host{} }), 8, 58_254, "as configured", ""},
		{"own argument", a4000(func(f *Facts) { f.Args = args("--kv-offloading-size", "4") }), 4, 29_127, "your own --kv-offloading-size", ""},
		{"own connector", a4000(func(f *Facts) { f.Args = args("--kv-transfer-config", "{}") }), 0, 0, "your own --kv-transfer-config", ""},
	}
	for _, tt := range tests {
		got, err := DecideTier(tt.facts)
		if err != nil || got.GiB != tt.gib || got.Tokens != tt.tokens || !strings.Contains(got.Reason, tt.reason) || !strings.Contains(got.Warning, tt.warning) || (got.Warning == "") != (tt.warning == "") {
			t.Errorf("%s: %+v, %v; want %v GiB, %d tokens, %q, warning %q", tt.name, got, err, tt.gib, tt.tokens, tt.reason, tt.warning)
		}
	}
}

func TestDecideTierRefuses(t *testing.T) {
	tests := []struct {
		name      string
		change    func(*Facts)
		what, fix string
	}{
		{"CPU build", func(f *Facts) { f.Platform = CPU }, "no host-memory tier", "auto"},
		{"more than is free", func(f *Facts) { f.Host.Free = 64 << 30 }, "4 replicas need 80.0 GiB, and 64.0 GiB of memory are free", "`kv_offload: 14`"},
		{"more than /dev/shm", func(f *Facts) { f.Host.Shm = 32 << 30 }, "32.0 GiB are free in /dev/shm", "`kv_offload: 7`"},
		{"hardly any /dev/shm", func(f *Facts) { f.Host.Shm = 64 << 20 }, "0.1 GiB are free in /dev/shm", "`kv_offload: auto`"},
	}
	for _, tt := range tests {
		_, err := DecideTier(a4000(func(f *Facts) { f.Offload.GiB = 20; tt.change(f) }))
		var none *NoTierError
		if !errors.As(err, &none) || !strings.Contains(err.Error(), tt.what) || !strings.Contains(none.Hint(), tt.fix) {
			t.Errorf("%s: %v (%+v), want %q and the fix %q", tt.name, err, none, tt.what, tt.fix)
		}
	}
}

func setting(t *testing.T, d Decision, flag string) Setting {
	t.Helper()
	for _, s := range d.Settings {
		if s.Flag == flag {
			return s
		}
	}
	t.Fatalf("nothing is said about %s in %+v", flag, d.Settings)
	return Setting{}
}

func TestDecide(t *testing.T) {
	tests := []struct {
		name        string
		facts       Facts
		flag, value string
		by          By
		reason      string
	}{
		{"small cache", a4000(nil), "--max-num-seqs", "32", ByWarden, "about 3 typical sessions"},
		{"80 GiB", a4000(func(f *Facts) { f.GPUMemory = 80 << 30 }), "--max-num-seqs", "64", ByWarden, "about 42 typical"},
		{"141 GiB", a4000(func(f *Facts) { f.GPUMemory = 141 << 30 }), "--max-num-seqs", "128", ByWarden, "about 78 typical"},
		{"never above 256", a4000(func(f *Facts) { f.GPUMemory, f.TP = 141<<30, 8 }), "--max-num-seqs", "256", ByWarden, "typical"},
		{"unknown", Facts{}, "--max-num-seqs", "32", ByWarden, "not known"},
		{"configured", a4000(func(f *Facts) { f.MaxNumSeqs = 7 }), "--max-num-seqs", "7", ByUser, "as configured"},
		{"own argument", a4000(func(f *Facts) { f.Args = args("--max-num-seqs", "9") }), "--max-num-seqs", "9", ByUser, "an engine argument"},
		{"priority", a4000(nil), "--scheduling-policy", "priority", ByWarden, "overtake"},
		{"0.28 is the first", a4000(func(f *Facts) { f.Version = "0.28.0" }), "--scheduling-policy", "priority", ByWarden, "overtake"},
		{"0.27 has no header", a4000(func(f *Facts) { f.Version = "0.27.1" }), "--scheduling-policy", "fcfs", ByVLLM, "0.28 does"},
		{"unknown version", a4000(func(f *Facts) { f.Version = "dev" }), "--scheduling-policy", "fcfs", ByVLLM, "not known"},
		{"own policy", a4000(func(f *Facts) { f.Args = args("--scheduling-policy", "fcfs") }), "--scheduling-policy", "fcfs", ByUser, "an engine argument"},
		{"Ampere", a4000(nil), "--kv-cache-dtype", "auto", ByVLLM, "has no fp8"},
		{"Ada", a4000(func(f *Facts) { f.ComputeCap = [2]int{8, 9} }), "--kv-cache-dtype", "auto", ByVLLM, "measure before"},
		{"Hopper", a4000(func(f *Facts) { f.ComputeCap = [2]int{9, 0} }), "--kv-cache-dtype", "auto", ByVLLM, "reads it well"},
		{"Blackwell", a4000(func(f *Facts) { f.ComputeCap = [2]int{10, 0} }), "--kv-cache-dtype", "auto", ByVLLM, "reads it well"},
		{"consumer Blackwell", a4000(func(f *Facts) { f.ComputeCap = [2]int{12, 0} }), "--kv-cache-dtype", "auto", ByVLLM, "measure before"},
		{"own KV type", a4000(func(f *Facts) { f.Args = args("--kv-cache-dtype", "fp8") }), "--kv-cache-dtype", "fp8", ByUser, "an engine argument"},
		{"context", a4000(nil), "--max-model-len", "auto", ByWarden, "262144"},
		{"own budget", a4000(func(f *Facts) { f.Args = args("--max-num-batched-tokens", "4096") }), "--max-num-batched-tokens", "4096", ByUser, "an engine argument"},
		{"tier", a4000(nil), "--kv-offloading-size", "16", ByWarden, "a quarter"},
		{"a failed load", a4000(nil), "--kv-transfer-config", `{"kv_load_failure_policy":"recompute"}`, ByWarden, "anew"},
		{"no tier", a4000(func(f *Facts) { f.Offload.Off = true }), "--kv-offloading-size", "off", ByVLLM, "configured"},
	}
	for _, tt := range tests {
		d, err := Decide(tt.facts)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		s := setting(t, d, tt.flag)
		if s.Value != tt.value || s.By != tt.by || !strings.Contains(s.Reason, tt.reason) {
			t.Errorf("%s: %+v, want %s %s by %s, %q", tt.name, s, tt.flag, tt.value, tt.by, tt.reason)
		}
	}
}

// What the user passes is never passed a second time.
func TestArgumentsLeaveTheUsersAlone(t *testing.T) {
	d, err := Decide(a4000(nil))
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range d.Arguments() {
		all = append(all, strings.Join(a, " "))
	}
	want := `--scheduling-policy priority, --kv-offloading-size 16, --kv-transfer-config {"kv_load_failure_policy":"recompute"}`
	if got := strings.Join(all, ", "); got != want {
		t.Errorf("passed %s\nwant   %s", got, want)
	}
	if d, err = Decide(a4000(func(f *Facts) { f.Args = args("--scheduling-policy", "fcfs", "--kv-offloading-size", "4") })); err != nil || len(d.Arguments()) > 0 || d.Priority {
		t.Errorf("passed %v beside the user's own, priority %t, %v", d.Arguments(), d.Priority, err)
	}
}

// Under a policy of the user's own, clients may have priorities of their own; and
// a limit that is no number is vLLM's to refuse.
func TestTheUsersOwnArguments(t *testing.T) {
	d, err := Decide(a4000(func(f *Facts) { f.Args = args("--scheduling-policy", "priority", "--max-num-seqs", "many") }))
	if err != nil || d.Priority || d.MaxNumSeqs != 32 {
		t.Errorf("priority %t, %d sequences, %v", d.Priority, d.MaxNumSeqs, err)
	}
}

func TestMinor(t *testing.T) {
	for version, want := range map[string]int{"0.32.0+cpu": 32, "0.30": 30, "0.28rc1": 28, "1.2.3": 1002, "": -1, "dev": -1, "0.x": -1} {
		if got, ok := minor(version); ok != (want >= 0) || ok && got != want {
			t.Errorf("%q: %d %t, want %d", version, got, ok, want)
		}
	}
}
