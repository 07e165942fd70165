package advice

import (
	"fmt"
	"math"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
)

// Kinds of remedies.
const (
	FewerSessions  = "fewer_sessions"
	Admission      = "admission"
	HostTier       = "host_tier"
	FP8KV          = "fp8_kv"
	TensorParallel = "tensor_parallel"
	Context        = "context"
	BatchLimit     = "batch_limit"
)

// Remedy is one thing that would help, or why it would not here.
type Remedy struct {
	Kind string `json:"kind"`
	// Helps is false for what is not possible or not advised on this machine: Text
	// then says why.
	Helps bool   `json:"helps"`
	Text  string `json:"text"`
	Try   string `json:"try,omitempty"` // what to type or to configure
	// Sessions would fit then, of the mean size; 0 = not counted.
	Sessions int `json:"sessions,omitempty"`
}

// Remedies are those against a working set that outgrows the KV cache, the most
// telling first.
func Remedies(m control.Model, l Load) []Remedy {
	out := []Remedy{fewerSessions(l)}
	for _, rule := range []func(control.Model, Load) (Remedy, bool){admission, hostTier, fp8, tensorParallel, shorterContext, batchLimit} {
		if r, ok := rule(m, l); ok {
			out = append(out, r)
		}
	}
	return out
}

// Briefly names in half a sentence what helps: "fewer sessions at once (about 14
// fit), `warden affinity admission m`, ...".
func Briefly(m control.Model, l Load) string {
	var parts []string
	for _, r := range Remedies(m, l) {
		switch {
		case !r.Helps:
		case r.Kind == FewerSessions && r.Sessions > 0:
			parts = append(parts, fmt.Sprintf("fewer sessions at once (about %d fit)", r.Sessions))
		case r.Kind == FewerSessions:
			parts = append(parts, "fewer sessions at once")
		default:
			try, _, _ := strings.Cut(r.Try, " (")
			parts = append(parts, try)
		}
	}
	return strings.Join(parts, ", ")
}

func fewerSessions(l Load) Remedy {
	r := Remedy{Kind: FewerSessions, Helps: true, Sessions: l.Fits(), Text: "fewer conversations at once"}
	if r.Sessions > 0 {
		r.Text = fmt.Sprintf("about %d conversations of %s tokens fit at once, and there were up to %d", r.Sessions, Count(l.SessionTokens), l.PeakSessions)
	}
	return r
}

// admission: SIMULATED at 24 and 32 sessions on the reference machine it finishes
// 1.7 times as many turns as affinity (`make ladder`).
func admission(m control.Model, _ Load) (Remedy, bool) {
	return Remedy{
		Kind: Admission, Helps: true, Try: "`warden affinity admission " + m.Alias + "`",
		Text: "admission lets as many conversations in as fit and makes the others wait as a whole, instead of letting them evict each other",
	}, m.Policy != control.PolicyAdmission
}

const (
	gib = 1 << 30
	// leastTier: a tier below twice the KV cache gains nothing, see
	// supervisor/vllm/tune.
	leastTier = 2
)

// hostTier is what `kv_offload: auto` would give where it was switched off, and
// else why there is none or how good it is.
func hostTier(m control.Model, l Load) (Remedy, bool) {
	o := m.KVOffload
	switch {
	case o == nil:
		return Remedy{}, false
	case o.GiB > 0:
		text := fmt.Sprintf("it is on, %.0f GiB a replica", o.GiB)
		if o.Tokens > 0 {
			text += fmt.Sprintf(" (%s tokens)", Count(o.Tokens))
		}
		if l.HostHitRate != nil {
			text += fmt.Sprintf(": %.0f%% of what the GPUs had lost came from there", 100**l.HostHitRate)
		}
		return Remedy{Kind: HostTier, Text: text}, true
	}
	tokens := 0
	if m.KVTokenBytes > 0 {
		tokens = int(o.PossibleGiB * gib / float64(m.KVTokenBytes))
	}
	switch {
	case !o.ConfiguredOff:
		return Remedy{Kind: HostTier, Text: o.Reason}, true
	case o.Warning != "":
		return Remedy{Kind: HostTier, Text: o.Warning}, true
	case tokens < leastTier*l.Replica:
		return Remedy{Kind: HostTier, Text: fmt.Sprintf("%.0f GiB, which this machine's memory allows a replica, are too little beside its KV cache", o.PossibleGiB)}, true
	}
	r := Remedy{Kind: HostTier, Helps: true, Try: "`kv_offload: auto`"}
	r.Text = fmt.Sprintf("%.0f GiB of this machine's memory a replica would keep %s tokens more, loaded in a fraction of the time that computing takes", o.PossibleGiB, Count(tokens))
	if l.SessionTokens > 0 && l.Replica > 0 {
		r.Sessions = int(float64(l.Capacity) / float64(l.Replica) * float64(tokens) / float64(l.SessionTokens))
	}
	return r, true
}

func fp8(m control.Model, l Load) (Remedy, bool) {
	for _, s := range m.Settings {
		if s.Flag == "--kv-cache-dtype" && s.By == control.ByUser && s.Value != "auto" {
			return Remedy{}, false // chosen already
		}
	}
	r := Remedy{Kind: FP8KV, Try: "`-- --kv-cache-dtype fp8`", Sessions: 2 * l.Fits()}
	switch m.FP8KV {
	case "good":
		r.Helps, r.Text = true, "a KV cache of 8 bits holds twice the tokens and costs some precision; these GPUs read it well"
	case "measure":
		r.Helps, r.Text = true, "a KV cache of 8 bits holds twice the tokens and costs some precision; another attention backend takes over on these GPUs, so measure (`warden bench`)"
	case "no":
		return Remedy{Kind: FP8KV, Text: "these GPUs have no 8-bit floats"}, true
	default:
		return Remedy{}, false
	}
	return r, true
}

// tensorParallel: two replicas made one keep the weights once, and one cache
// twice as large takes conversations that none of two could.
func tensorParallel(m control.Model, l Load) (Remedy, bool) {
	if m.DP < 2 || m.Device == "cpu" || m.KVTokenBytes == 0 || m.WeightsBytes == 0 || l.Replica == 0 {
		return Remedy{}, false
	}
	gained := int(m.WeightsBytes / uint64(m.KVTokenBytes))
	merged := 2*l.Replica + gained
	pairs := m.DP / 2
	large := l.LargestSession > l.Replica/2
	if !large && float64(gained) < 0.5*float64(l.Replica) {
		return Remedy{}, false // the exchange between GPUs costs more than a little room is worth
	}
	r := Remedy{Kind: TensorParallel, Helps: true, Try: fmt.Sprintf("`--tp %d --dp %d`", 2*max(m.TP, 1), pairs)}
	r.Text = fmt.Sprintf("two GPU groups as one replica keep the weights once: about %s tokens each instead of %s; every step then waits for the exchange between GPUs", Count(merged), Count(l.Replica))
	if large {
		r.Text += fmt.Sprintf("; the longest conversation (%s) takes more than half of a replica now", Count(l.LargestSession))
	}
	if l.SessionTokens > 0 {
		r.Sessions = pairs * merged / l.SessionTokens
	}
	return r, true
}

// shorterContext: one conversation that takes most of a cache evicts all others
// on each of its turns.
func shorterContext(m control.Model, l Load) (Remedy, bool) {
	if l.Replica == 0 || l.LargestSession <= l.Replica/2 {
		return Remedy{}, false
	}
	limit := l.Replica / 2 / 1024
	if limit == 0 || m.MaxModelLen > 0 && limit*1024 >= m.MaxModelLen {
		return Remedy{}, false
	}
	return Remedy{
		Kind: Context, Helps: true, Try: fmt.Sprintf("`-- --max-model-len %dK`", limit),
		Text: fmt.Sprintf("the longest conversation had %s tokens of a replica's %s: a shorter context makes clients compact sooner, and ends those that cannot", Count(l.LargestSession), Count(l.Replica)),
	}, true
}

func batchLimit(m control.Model, l Load) (Remedy, bool) {
	if l.Preemptions == 0 {
		return Remedy{}, false
	}
	r := Remedy{Kind: BatchLimit, Helps: true, Text: fmt.Sprintf("running turns outgrew the cache %d times and were thrown back: a lower limit admits fewer at once", l.Preemptions)}
	if fit := l.Fits(); fit > 0 && m.DP > 0 {
		r.Try = fmt.Sprintf("`max_num_seqs: %d` (now %d)", max(int(math.Ceil(float64(fit)/float64(m.DP))), 1), m.MaxNumSeqs)
	}
	return r, true
}

// Count writes a number of tokens the way people say it: 950, 9.5k, 40k, 1.2M.
func Count(n int) string {
	switch {
	case n < 1_000:
		return fmt.Sprint(n)
	case n < 9_950:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e3), ".0") + "k"
	case n < 999_500:
		return fmt.Sprintf("%.0fk", float64(n)/1e3)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e6), ".0") + "M"
}
