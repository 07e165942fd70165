package daemon

import (
	"slices"
	"strings"

	"github.com/lm-warden/warden/configs"
)

// Settings are the effective values by key, without secrets.
func Settings(cfg configs.Config) map[string]any {
	values := map[string]any{}
	for _, v := range WithoutSecrets(cfg).Values() {
		values[v.Key] = configs.Plain(v.Value)
	}
	return values
}

// WithoutSecrets leaves out what a configuration itself may hold of them: the
// values of a model's env (HF_TOKEN). API keys stay in their file.
func WithoutSecrets(cfg configs.Config) configs.Config {
	cfg.Models = slices.Clone(cfg.Models)
	for i := range cfg.Models {
		env := slices.Clone(cfg.Models[i].Env)
		for k, e := range env {
			name, _, _ := strings.Cut(e, "=")
			env[k] = name + "=..."
		}
		cfg.Models[i].Env = env
	}
	return cfg
}
