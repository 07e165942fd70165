package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/hostmem"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/vllm"
)

const config4B = `{"num_hidden_layers":36,"num_attention_heads":32,"num_key_value_heads":8,"head_dim":128,"max_position_embeddings":262144}`

// machine is four RTX A4000 with a model on the disk.
type machine struct {
	t      *testing.T
	cfg    configs.Config
	model  string // its directory
	record string
	memory hostmem.Memory
}

func newMachine(t *testing.T, configJSON string) *machine {
	dir := t.TempDir()
	if configJSON != "" {
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(configJSON), 0o600); err != nil {
			t.Fatal(err)
		}
		weights, err := os.Create(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer weights.Close()
		if err := weights.Truncate(8_000_000_000); err != nil { // a file of holes
			t.Fatal(err)
		}
	}
	return &machine{
		t: t, cfg: configs.Default(), model: dir, record: filepath.Join(t.TempDir(), "state", choicesFile),
		memory: hostmem.Memory{Free: 300 << 30, Shm: 150 << 30},
	}
}

// plan tunes one model over four GPUs.
func (m *machine) plan(want configs.Model, left ...shim.State) (Model, error) {
	m.t.Helper()
	if want.Repo == "" {
		want.Repo = m.model
	}
	filled, err := want.WithDefaults(configs.Builtin())
	if err != nil {
		m.t.Fatal(err)
	}
	models := []Model{{Model: filled, Install: vllm.Install{Argv: []string{"vllm"}, Version: "0.32.0", Device: m.cfg.Engine.Device}}}
	places := make([][]Place, 1)
	for i := range 4 {
		places[0] = append(places[0], Place{group: gpu.Group{{Index: i, Memory: 16_880_000_000, ComputeCap: [2]int{8, 6}}}})
	}
	err = tuneAll(m.cfg, models, places, left, m.memory, m.record)
	return models[0], err
}

func passed(m Model) string {
	var all []string
	for _, a := range m.Tuned.Arguments() {
		all = append(all, strings.Join(a, " "))
	}
	return strings.Join(all, ", ")
}

func TestTune(t *testing.T) {
	m := newMachine(t, config4B)
	got, err := m.plan(configs.Model{Alias: "m"})
	if err != nil {
		t.Fatal(err)
	}
	if want := `--scheduling-policy priority, --kv-offloading-size 16, --kv-transfer-config {"kv_load_failure_policy":"recompute"}`; passed(got) != want {
		t.Errorf("passed %s\nwant   %s", passed(got), want)
	}
	if got.MaxNumSeqs != 32 || got.KVTokenBytes != 147456 || got.Tuned.Tier.Tokens != 116_508 || got.Tuned.KVTokens < 36_000 || got.Tuned.KVTokens > 42_000 {
		t.Errorf("%+v, %d bytes a token", got.Tuned, got.KVTokenBytes)
	}
	if got, err = m.plan(configs.Model{Alias: "m", MaxNumSeqs: 8, KVOffload: "off", Args: []string{"--scheduling-policy=fcfs"}}); err != nil || passed(got) != "" || got.MaxNumSeqs != 8 {
		t.Errorf("beside the user's own: %s, %d sequences, %v", passed(got), got.MaxNumSeqs, err)
	}
	m.memory.Free = 16 << 30
	_, err = m.plan(configs.Model{Alias: "m", KVOffload: "16"})
	if exit.CodeOf(err) != exit.Preflight || !strings.Contains(err.Error(), "4 replicas need 64.0 GiB") {
		t.Errorf("a tier larger than the memory: %v", err)
	}
}

// The catalogue knows models before they are downloaded; of others nothing is
// known, and nothing is risked.
func TestTuneBeforeTheDownload(t *testing.T) {
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	m := newMachine(t, "")
	got, err := m.plan(configs.Model{Alias: "qwen3-4b", Repo: "Qwen/Qwen3-4B-Instruct-2507"})
	if err != nil || got.Tuned.Tier.GiB != 16 {
		t.Errorf("from the catalogue: %+v, %v", got.Tuned.Tier, err)
	}
	got, err = m.plan(configs.Model{Alias: "x", Repo: "some/model"})
	if err != nil || got.Tuned.Tier.GiB != 0 || !strings.Contains(got.Tuned.Tier.Reason, "config.json is not on this disk") || got.MaxNumSeqs != 32 {
		t.Errorf("unknown: %+v, %v", got.Tuned, err)
	}
}

// Engines that still run are adopted only with the very same command line: less
// free memory, or a config.json that is here now, must not change it. Another
// wish of the user does.
func TestRunningEnginesKeepTheirSettings(t *testing.T) {
	m := newMachine(t, config4B)
	first, err := m.plan(configs.Model{Alias: "m"})
	if err != nil {
		t.Fatal(err)
	}
	m.memory.Free = 20 << 30 // the tiers took theirs
	running := shim.State{Replica: "r0", Model: "m"}
	again, err := m.plan(configs.Model{Alias: "m"}, running)
	if err != nil || passed(again) != passed(first) || again.MaxNumSeqs != first.MaxNumSeqs {
		t.Errorf("with engines left: %s, %v; want %s", passed(again), err, passed(first))
	}
	for name, want := range map[string]configs.Model{
		"tier off":      {Alias: "m", KVOffload: "off"},
		"own argument":  {Alias: "m", Args: []string{"--seed", "1"}},
		"another limit": {Alias: "m", MaxNumSeqs: 4},
	} {
		if _, err := m.plan(configs.Model{Alias: "m"}, running); err != nil {
			t.Fatal(err)
		}
		if changed, err := m.plan(want, running); err != nil || changed.Tuned.Tier.GiB != 0 {
			t.Errorf("%s: %s, %v; want a new decision", name, passed(changed), err)
		}
		m.memory.Free = 300 << 30
		if _, err := m.plan(configs.Model{Alias: "m"}); err != nil {
			t.Fatal(err)
		}
		m.memory.Free = 20 << 30
	}
	fresh, err := m.plan(configs.Model{Alias: "m"})
	if err != nil || fresh.Tuned.Tier.GiB != 0 {
		t.Errorf("none left: %s, %v; want a new decision", passed(fresh), err)
	}
}

func TestDamagedChoicesAreNone(t *testing.T) {
	m := newMachine(t, config4B)
	if err := os.MkdirAll(filepath.Dir(m.record), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(m.record, []byte(`{"m":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := m.plan(configs.Model{Alias: "m"}, shim.State{Model: "m"}); err != nil || got.Tuned.Tier.GiB != 16 {
		t.Errorf("%+v, %v", got.Tuned.Tier, err)
	}
	if readChoices(m.record)["m"].Decision.Tier.GiB != 16 {
		t.Error("the new decision was not kept")
	}
}
