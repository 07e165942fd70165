package tune

import (
	"fmt"
	"strconv"
)

// By says who decided a setting.
type By string

// Who decides.
const (
	ByUser   By = "user"   // among the engine arguments, or configured
	ByWarden By = "warden" // chosen here, passed to vLLM
	ByVLLM   By = "vllm"   // left at vLLM's own default, for the reason given
)

// Setting is one of vLLM's, with its reason.
type Setting struct {
	Flag, Value string
	By          By
	Reason      string
}

// Decision is everything that warden decides about the engines of a model.
type Decision struct {
	Settings   []Setting
	MaxNumSeqs int
	Priority   bool // the engine orders waiting requests by X-Vllm-Priority
	Tier       Tier
	KVTokens   int // of a replica, estimated before its start; 0 = not known
	FP8        FP8
}

// Arguments are the flags that warden passes for what it has chosen. The limit
// of sequences is not among them: the caller passes it together with what else
// depends on it.
func (d Decision) Arguments() [][]string {
	var out [][]string
	for _, s := range d.Settings {
		if s.By == ByWarden && s.Flag != maxNumSeqs && s.Flag != maxModelLen {
			out = append(out, []string{s.Flag, s.Value})
		}
	}
	return out
}

const (
	maxNumSeqs  = "--max-num-seqs"
	maxModelLen = "--max-model-len"
)

// Decide chooses the settings of a model's engines.
func Decide(f Facts) (Decision, error) {
	d := Decision{KVTokens: EstimateKVTokens(f), FP8: FP8On(f.ComputeCap[0], f.ComputeCap[1])}
	seqs := sequences(f, d.KVTokens)
	var err error
	if d.MaxNumSeqs, err = strconv.Atoi(seqs.Value); err != nil || d.MaxNumSeqs < 1 {
		d.MaxNumSeqs = fewestSeqs // vLLM will say what is wrong with the user's own
	}
	scheduling := scheduling(f)
	d.Priority = scheduling.By == ByWarden // under the user's own policy the clients' priorities count
	tier, err := DecideTier(f)
	if err != nil {
		return d, err
	}
	d.Tier = tier
	d.Settings = append([]Setting{seqs, scheduling}, f.users([]Setting{
		{"--max-num-batched-tokens", "default", ByVLLM, batchedReason},
		{"--long-prefill-token-threshold", "0", ByVLLM, thresholdReason},
		kvDType(f),
		context(f),
	})...)
	d.Settings = append(d.Settings, tierSettings(f, tier)...)
	return d, nil
}

// users marks what the user's own arguments set.
func (f Facts) users(settings []Setting) []Setting {
	for i, s := range settings {
		if v, given := f.arg(s.Flag); given {
			settings[i] = Setting{s.Flag, v, ByUser, "an engine argument"}
		}
	}
	return settings
}

const (
	fewestSeqs = 32
	mostSeqs   = 256
)

// sequences: an engine has to run as many turns at once as its KV cache holds
// conversations, or it makes them wait for a place in the batch while their
// prefixes are evicted. SIMULATED, 256 sessions on four replicas of 800,000 KV
// tokens (64 each), affinity: limits of 16, 32, 64 and 128 give 710, 741, 1,518
// and 1,518 turns/min and a TTFT p50 of 16.7, 10.9, 0.12 and 0.12 s. Above what
// the cache holds the limit changes nothing (40,000 tokens: 4 to 64 give the
// same), but vLLM reserves memory for each sequence, and warden's automatic
// spill limit is a quarter of it. So: the next power of two above the typical
// sessions that fit, 32 to 256; 32 where the capacity is not known.
func sequences(f Facts, kvTokens int) Setting {
	if v, given := f.arg(maxNumSeqs); given {
		return Setting{maxNumSeqs, v, ByUser, "an engine argument"}
	}
	if f.MaxNumSeqs > 0 {
		return Setting{maxNumSeqs, strconv.Itoa(f.MaxNumSeqs), ByUser, "as configured"}
	}
	fit := TypicalSessions(kvTokens)
	n := fewestSeqs
	for n < mostSeqs && float64(n) < fit {
		n *= 2
	}
	reason := "the KV cache's size is not known before the start"
	if kvTokens > 0 {
		reason = fmt.Sprintf("about %.0f typical sessions fit the KV cache at once", fit)
	}
	return Setting{maxNumSeqs, strconv.Itoa(n), ByWarden, reason}
}

// SIMULATED, 8 to 24 sessions on the reference machine: 512 to 8,192 tokens a
// step differ by less than a seed does in turns/min and TTFT p50; the p95 of
// cold turns gains 3 % above 2,048 and loses 8 % at 512. With 800,000 KV tokens
// and 256 sessions 8,192 halve the p95 (0.71 to 0.35 s): what vLLM takes by itself
// on GPUs of 70 GiB and more.
const batchedReason = "512 to 8192 gave the same turns/min in simulation; vLLM takes more on large GPUs by itself"

// SIMULATED, 8 to 24 sessions: thresholds of 256, 512 and 1,024 leave the TTFT
// p50 as it is and raise the p95 by 2 to 20 %. Under priority scheduling hot
// turns overtake a long prefill anyhow, between its steps.
const thresholdReason = "a cap on long prefills only slowed cold turns in simulation"

// prioritySince is the version from which vLLM reads X-Vllm-Priority (0.28,
// vllm-project/vllm#51089).
const prioritySince = 28

// scheduling: turns whose prefix is cached overtake cold ones that wait inside the
// engine and came up to half a minute before (router.EnginePriority). SIMULATED, 8
// to 48 sessions on the reference machine: turns/min within 1 % and the longest
// session no longer, with affinity and with admission. One measured run on vLLM
// 0.32.0's CPU build, admission, priority by cost alone: 3,240 sessions an hour
// against 2,664 at 12 sessions, within noise at 8 and 16.
func scheduling(f Facts) Setting {
	const flag = "--scheduling-policy"
	if v, given := f.arg(flag); given {
		return Setting{flag, v, ByUser, "an engine argument"}
	}
	n, known := minor(f.Version)
	switch {
	case !known:
		return Setting{flag, "fcfs", ByVLLM, "the version of this vLLM is not known"}
	case n < prioritySince:
		return Setting{flag, "fcfs", ByVLLM, "vLLM " + f.Version + " does not read a request's priority; 0.28 does"}
	}
	return Setting{flag, "priority", ByWarden, "turns with a cached prefix overtake cold ones inside the engine, up to half a minute"}
}

// context: a conversation as long as the whole KV cache evicts all others, but
// cutting it short ends it. So the model's own length, or what fits.
func context(f Facts) Setting {
	s := Setting{maxModelLen, "auto", ByWarden, "the model's own context, or as much of it as the KV cache holds"}
	if f.Model.MaxPosition > 0 {
		s.Reason = fmt.Sprintf("the model's own %d tokens, or as many as the KV cache holds", f.Model.MaxPosition)
	}
	return s
}

// tierSettings are the arguments of the host-memory tier. By vLLM's default a
// load that fails fails its request; computing the blocks anew only takes time.
func tierSettings(f Facts, t Tier) []Setting {
	const size, transfer = "--kv-offloading-size", "--kv-transfer-config"
	if v, given := f.arg(size); given {
		return []Setting{{size, v, ByUser, "an engine argument"}}
	}
	if t.GiB == 0 {
		return []Setting{{size, "off", ByVLLM, t.Reason}}
	}
	return []Setting{
		{size, number(t.GiB), ByWarden, t.Reason},
		{transfer, `{"kv_load_failure_policy":"recompute"}`, ByWarden, "a failed load is computed anew instead of failing its request"},
	}
}
