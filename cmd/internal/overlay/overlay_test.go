package overlay

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/configs"
)

func given(flags ...string) func(string) bool {
	return func(flag string) bool { return slices.Contains(flags, flag) }
}

func TestApply(t *testing.T) {
	configured := []configs.Model{{Alias: "a", Repo: "org/a", DP: 2, TP: 2}, {Alias: "b", Repo: "org/b"}}
	tests := []struct {
		name  string
		flags Models
		want  []configs.Model
		fails string
	}{
		{"nothing", Models{}, configured, ""},
		{"a configured one", Models{Names: []string{"b"}, DP: 3, Changed: given("dp")}, []configs.Model{{Alias: "b", Repo: "org/b", DP: 3}}, ""},
		{"by its repository, and zero is a value", Models{Names: []string{"org/a"}, TP: 0, Changed: given("tp")}, []configs.Model{{Alias: "a", Repo: "org/a", DP: 2}}, ""},
		{"an unknown one", Models{Names: []string{"new"}, Affinity: "off", SpillLimit: "7", EngineArgs: []string{"--x"}},
			[]configs.Model{{Alias: "new", Affinity: "off", SpillLimit: "7", Args: []string{"--x"}}}, ""},
		{"the demo's", Models{Demo: true, DP: 1, Changed: given("dp")}, []configs.Model{{Alias: "qwen3-4b", DP: 1}}, ""},
		{"several", Models{Names: []string{"a", "b"}}, configured, ""},
		{"one figure for several", Models{DP: 1, Changed: given("dp")}, nil, "--dp is for one model, and 2 are named"},
		{"arguments for several", Models{EngineArgs: []string{"--x"}}, nil, "arguments after --"},
		{"negative", Models{Names: []string{"a"}, DP: -1, Changed: given("dp")}, nil, "must not be negative"},
		{"no limit", Models{Names: []string{"a"}, SpillLimit: "many"}, nil, "--spill-limit: "},
		{"no tier", Models{Names: []string{"a"}, KVOffload: "much"}, nil, "--kv-offload: "},
		{"no policy", Models{Names: []string{"a"}, Affinity: "sometimes"}, nil, "sometimes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := configs.Config{Models: slices.Clone(configured)}
			err := tt.flags.Apply(&cfg)
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || exit.CodeOf(err) != exit.Usage {
					t.Errorf("%v (exit code %d), want %q", err, exit.CodeOf(err), tt.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, cfg.Models); diff != "" {
				t.Error(diff)
			}
		})
	}
}
