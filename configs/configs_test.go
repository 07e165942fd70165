package configs

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLoadPriority(t *testing.T) {
	low := write(t, "low.yaml", "listen: 127.0.0.1:1\ndrain: 5s\nname: low\nmodels:\n- alias: qwen2.5-7b\n  repo: a/b\n")
	high := write(t, "high.yaml", "listen: 127.0.0.1:2\nengine:\n  vllm: /opt/vllm\n")
	env := map[string]string{"WARDEN_DRAIN": "7s", "WARDEN_ENGINE_DEVICE": "cpu", "WARDEN_ALLOWED_HOSTS": "a,b"}
	got, err := Load(Source{
		Files: []string{low, filepath.Join(t.TempDir(), "absent.yaml"), high},
		LookupEnv: func(k string) (string, bool) {
			v, ok := env[k]
			return v, ok
		},
		Flags: map[string]any{"engine::device": "simulated"},
	})
	if err != nil {
		t.Fatal(err)
	}
	c := got.Config
	if c.Listen != "127.0.0.1:2" || c.Drain != 7*time.Second || c.Name != "low" || c.Engine.VLLM != "/opt/vllm" || c.Engine.Device != "simulated" {
		t.Errorf("wrong values: %+v", c)
	}
	if len(c.Models) != 1 || c.Models[0].Alias != "qwen2.5-7b" || len(c.AllowedHosts) != 2 {
		t.Errorf("wrong lists: %+v", c)
	}
	for key, want := range map[string]string{"listen": high, "drain": "WARDEN_DRAIN", "name": low, "engine::device": "flag", "max_wait": "default", "engine::vllm": high} {
		if got.Origin[key] != want {
			t.Errorf("origin of %s = %q, want %q", key, got.Origin[key], want)
		}
	}
}

func TestLoadErrorsNameFileAndLine(t *testing.T) {
	for _, tc := range []struct{ name, content, want string }{
		{"of a model at the top", "listen: x\nspil_limit: 3\n", `:2: unknown key "spil_limit", did you mean "spill_limit"? It belongs under "models"`},
		{"of the top in a section", "engine:\n  insecur: true\n", `:2: unknown key "insecur", did you mean "insecure"? It belongs at the top level`},
		{"nothing like it", "listen: x\nzzzzzzzzz: 3\n", `:2: unknown key "zzzzzzzzz"`},
		{"in a model", "models:\n- alias: a/b\n  spil_limit: 3\n", `:3: unknown key "spil_limit", did you mean "spill_limit"?`},
		{"in a model's section", "models:\n- alias: a/b\n  admission:\n    overcomit: 0.1\n", `:4: unknown key "overcomit", did you mean "overcommit"?`},
		{"of a model's section", "models:\n- alias: a/b\n  overcomit: 0.1\n", `:3: unknown key "overcomit", did you mean "overcommit"? It belongs under "admission"`},
		{"in a section", "engine:\n  vlm: x\n", `:2: unknown key "vlm", did you mean "vllm"?`},
		{"map instead of list", "models:\n  qwen: {}\n", `:2: a list is wanted here`},
		{"bad duration", "drain: soon\n", "'drain' time: invalid duration"},
		{"not yaml", "a: [", "not valid YAML"},
		{"section is a scalar", "engine: fast\n", ":1: keys are wanted here"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Load(Source{Files: []string{write(t, "w.yaml", tc.content)}})
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "w.yaml") {
				t.Errorf("error %v, want the file and %q", err, tc.want)
			}
		})
	}
}

func TestRequiredFileMustExist(t *testing.T) {
	if _, err := Load(Source{Required: filepath.Join(t.TempDir(), "none.yaml")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v, want not-exist", err)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*Config)
		want string // "" = valid
	}{
		{"default", func(*Config) {}, ""},
		{"open without keys", func(c *Config) { c.Listen = "0.0.0.0:8000" }, "reachable from other machines"},
		{"open with keys", func(c *Config) { c.Listen = "0.0.0.0:8000"; c.APIKeysFile = "k" }, ""},
		{"open, insecure", func(c *Config) { c.Listen = ":8000"; c.Insecure = true }, ""},
		{"ipv6 loopback", func(c *Config) { c.Listen = "[::1]:8000" }, ""},
		{"no port", func(c *Config) { c.Listen = "127.0.0.1" }, "host:port"},
		{"bad port", func(c *Config) { c.Listen = "127.0.0.1:70000" }, "65535"},
		{"max wait", func(c *Config) { c.MaxWait = time.Hour }, "max_wait"},
		{"name", func(c *Config) { c.Name = "../x" }, "name"},
		{"access log to nowhere", func(c *Config) { c.AccessLog = "-" }, "must name a file"},
		{"bodies in files of nothing", func(c *Config) { c.SpoolAboveMiB = 0 }, "spool_above_mib 0"},
		{"bodies in bytes", func(c *Config) { c.SpoolAboveMiB = 16 << 20 }, "spool_above_mib"},
		{"device", func(c *Config) { c.Engine.Device = "tpu" }, "tpu"},
		{"start in no time", func(c *Config) { c.Engine.StartTimeout = -time.Minute }, "start_timeout -1m0s"},
		{"unknown model", func(c *Config) { c.Models = []Model{{Alias: "qwen3-4"}} }, "did you mean qwen3-4b?"},
		{"duplicate alias", func(c *Config) { c.Models = []Model{{Alias: "qwen3-4b"}, {Alias: "qwen3-4b"}} }, "already models[0]"},
		{"gpu twice", func(c *Config) {
			c.Models = []Model{{Alias: "qwen3-4b", GPUs: []int{0}}, {Alias: "qwen3-8b", GPUs: []int{0}}}
		}, "GPU 0 is already given to qwen3-4b"},
		{"tier", func(c *Config) { c.Models = []Model{{Alias: "qwen3-4b", KVOffload: "16G"}} }, "kv_offload"},
		{"tier of nothing", func(c *Config) { c.Models = []Model{{Alias: "qwen3-4b", KVOffload: "NaN"}} }, "kv_offload"},
		{"spill", func(c *Config) { c.Models = []Model{{Alias: "qwen3-4b", SpillLimit: "0"}} }, "spill_limit"},
		{"overcommit in percent", func(c *Config) {
			c.Models = []Model{{Alias: "qwen3-4b", Admission: Admission{Overcommit: 10}}}
		}, "overcommit 10"},
		{"overcommit", func(c *Config) {
			c.Models = []Model{{Alias: "qwen3-4b", Admission: Admission{Overcommit: math.NaN()}}}
		}, "overcommit NaN"},
		{"rotation backwards", func(c *Config) {
			c.Models = []Model{{Alias: "qwen3-4b", Admission: Admission{RotateAfter: -time.Second, RotateShare: 20}}}
		}, "rotate_share 20"},
		{"policy", func(c *Config) { c.Models = []Model{{Alias: "qwen3-4b", Affinity: "maybe"}} }, "maybe"},
		{"env", func(c *Config) { c.Models = []Model{{Alias: "qwen3-4b", Env: []string{"=x"}}} }, "NAME=value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Default()
			tc.edit(&c)
			err := c.Validate()
			if tc.want == "" && err != nil {
				t.Errorf("unexpected error: %v", err)
			}
			if tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestCatalogue(t *testing.T) {
	entries := Builtin()
	if len(entries) < 5 {
		t.Fatalf("only %d entries", len(entries))
	}
	for _, name := range []string{"qwen3-4b", "QWEN3-4B", "Qwen/Qwen3-4B-Instruct-2507"} {
		if e, err := Lookup(entries, name); err != nil || e.Repo != "Qwen/Qwen3-4B-Instruct-2507" {
			t.Errorf("Lookup(%s) = %+v, %v", name, e, err)
		}
	}
	if e, err := Lookup(entries, "some/Repo-X"); err != nil || e.Alias != "repo-x" {
		t.Errorf("a repository: %+v, %v", e, err)
	}
	merged := Merge(entries, []Entry{{Alias: "qwen3-4b", Repo: "mine/q"}, {Alias: "new", Repo: "n/n"}})
	if e, _ := Lookup(merged, "qwen3-4b"); e.Repo != "mine/q" || len(merged) != len(entries)+1 {
		t.Errorf("a user's entry must replace the built-in one: %+v", e)
	}
}

func TestModelDefaults(t *testing.T) {
	m, err := Model{Alias: "qwen3-4b", Args: []string{"--max-model-len", "16k"}}.WithDefaults(Builtin())
	if err != nil {
		t.Fatal(err)
	}
	if m.Repo != "Qwen/Qwen3-4B-Instruct-2507" || m.TP != 1 || m.Affinity != PolicyAffinity || m.MaxNumSeqs != 0 {
		t.Errorf("wrong defaults: %+v", m)
	}
	if last := m.Args[len(m.Args)-2:]; last[0] != "--max-model-len" {
		t.Errorf("the user's arguments must come last: %v", m.Args)
	}
	m, err = Model{Repo: "org/Own-Model", Affinity: "off"}.WithDefaults(Builtin())
	if err != nil || m.Alias != "own-model" || m.Affinity != PolicyBalance {
		t.Errorf("repo only: %+v, %v", m, err)
	}
}

func TestExampleFileIsTheDefault(t *testing.T) {
	got, err := Load(Source{Required: "warden.example.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Config.Validate(); err != nil {
		t.Error(err)
	}
	want := Default()
	have := got.Config
	have.Models, have.Catalogue = nil, nil
	for i, row := range have.Values() {
		if w := want.Values()[i]; row.Key != w.Key || !sameValue(row.Value, w.Value) {
			t.Errorf("the example sets %s to %v, the default is %v", row.Key, row.Value, w.Value)
		}
		if row.Key != "models" && row.Key != "catalogue" && got.Origin[row.Key] == "default" {
			t.Errorf("the example does not show %s", row.Key)
		}
	}
}

func sameValue(a, b any) bool {
	if s, ok := a.([]string); ok {
		return len(s) == 0 && len(b.([]string)) == 0
	}
	return strings.EqualFold(strings.TrimSpace(toString(a)), toString(b))
}

func toString(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "<nil>", "[]") }

func FuzzCheckKeys(f *testing.F) {
	f.Add([]byte("listen: x\nmodels:\n- alias: a\n"))
	f.Add([]byte("a: &x [*x]\n"))
	f.Add([]byte("engine: {vllm: [1]}\n"))
	f.Fuzz(func(_ *testing.T, content []byte) { _ = checkKeys("f", content) })
}

func TestPlainIsWhatAFileHolds(t *testing.T) {
	models := []Model{{Alias: "qwen3-4b", DP: 2, GPUs: []int{0, 1}, Args: []string{"--x"}}}
	want := []any{map[string]any{"alias": "qwen3-4b", "dp": 2, "gpus": []any{0, 1}, "args": []any{"--x"}}}
	if got := Plain(models); !reflect.DeepEqual(got, want) {
		t.Errorf("models: %v, want %v", got, want)
	}
	if got := Plain(90 * time.Second); got != "1m30s" {
		t.Errorf("duration: %v", got)
	}
	if got := Plain([]string(nil)); !reflect.DeepEqual(got, []any{}) {
		t.Errorf("empty list: %v", got)
	}
}
