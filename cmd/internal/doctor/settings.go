package doctor

import (
	"fmt"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/supervisor/control/advice"
	"github.com/lm-warden/warden/supervisor/vllm/tune"
)

// settings says for each model how much conversation its replicas will hold,
// what is chosen for its engines, and why.
func settings(f Facts) []Finding {
	const name = "settings"
	if f.Engines.Err != nil {
		return one("kv_offload", Fail, f.Engines.Err.Error(), exit.HintOf(f.Engines.Err))
	}
	var all []Finding
	for _, m := range f.Engines.Models {
		if tokens := m.Tuned.KVTokens; tokens > 0 {
			all = append(all, Finding{name, OK, fmt.Sprintf("%s: about %s KV tokens a replica, %.1f typical sessions of 15k", m.Alias, advice.Count(tokens), tune.TypicalSessions(tokens)), ""})
		}
		for _, s := range m.Tuned.Settings {
			if s.By == tune.ByWarden {
				all = append(all, Finding{name, OK, fmt.Sprintf("%s: %s %s: %s", m.Alias, s.Flag, s.Value, s.Reason), ""})
			}
		}
		switch t := m.Tuned.Tier; {
		case t.GiB == 0:
			all = append(all, Finding{"kv_offload", OK, m.Alias + ": no tier in host memory, " + t.Reason, ""})
		case t.Warning != "":
			all = append(all, Finding{"kv_offload", Warn, m.Alias + ": the tier in host memory is asked for against advice: " + t.Warning, "`kv_offload: auto`, or a newer vLLM"})
		}
	}
	return all
}
