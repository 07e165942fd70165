package daemon

import (
	"encoding/json"
	"net"
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

// Differing lists the keys of cfg that a running warden has other values for.
// Those that it does not know, being older, do not count.
func Differing(cfg configs.Config, running map[string]json.RawMessage) []string {
	var keys []string
	for key, value := range Settings(cfg) {
		now, ok := running[key]
		mine, err := json.Marshal(value)
		if !ok || err != nil || string(mine) == string(now) || key == "listen" && anyPort(cfg.Listen) {
			continue
		}
		keys = append(keys, configs.Dotted(key))
	}
	slices.Sort(keys)
	return keys
}

// anyPort says that the address leaves the port to the system.
func anyPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	return err == nil && port == "0"
}
