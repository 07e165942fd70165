package explain

import (
	"fmt"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

// Thresholds of "not evenly spread", as users of vllm-htop know them.
const (
	spreadFactor  = 1.5  // the most loaded holds this many times the least loaded ...
	spreadHeld    = 3    // ... and more than this many requests more
	spreadKV      = 0.15 // share of KV blocks between fullest and emptiest
	spreadSeconds = 0.1  // a factor between two times below this is noise
)

// Spread is how unevenly the replicas of a model are loaded. Ranges are of ready replicas with fresh figures.
type Spread struct {
	HeldMin, HeldMax int
	KVMin, KVMax     float64
	TTFTFactor       float64 // largest p50 over smallest; 0 unknown
	Outlier          string  // the replica that is worst in what is uneven; "" when even
}

// Uneven reports whether there is anything to tell.
func (s Spread) Uneven() bool { return s.Outlier != "" }

// SpreadOf measures the replicas of one model; ok is false with fewer than two to compare.
func SpreadOf(rs []control.Replica) (s Spread, ok bool) {
	live := serving(rs)
	if len(live) < 2 {
		return Spread{}, false
	}
	s = Spread{HeldMin: live[0].Held, HeldMax: live[0].Held, KVMin: live[0].Engine.KVUsed, KVMax: live[0].Engine.KVUsed}
	mostHeld, fullest, slowest := live[0].ID, live[0].ID, ""
	var fast, slow float64
	for _, r := range live {
		if r.Held > s.HeldMax {
			mostHeld = r.ID
		}
		if r.Engine.KVUsed > s.KVMax {
			fullest = r.ID
		}
		s.HeldMin, s.HeldMax = min(s.HeldMin, r.Held), max(s.HeldMax, r.Held)
		s.KVMin, s.KVMax = min(s.KVMin, r.Engine.KVUsed), max(s.KVMax, r.Engine.KVUsed)
		if r.TTFT == nil || r.TTFT.P50 <= 0 {
			continue
		}
		if slowest == "" || r.TTFT.P50 > slow {
			slow, slowest = r.TTFT.P50, r.ID
		}
		if fast == 0 || r.TTFT.P50 < fast {
			fast = r.TTFT.P50
		}
	}
	if fast > 0 {
		s.TTFTFactor = slow / fast
	}
	switch {
	case s.TTFTFactor > spreadFactor && slow-fast > spreadSeconds:
		s.Outlier = slowest
	case s.HeldMax-s.HeldMin > spreadHeld && float64(s.HeldMax) > spreadFactor*float64(s.HeldMin):
		s.Outlier = mostHeld
	case s.KVMax-s.KVMin > spreadKV && s.KVMax >= KVHigh:
		s.Outlier = fullest
	}
	return s, true
}

// lopsided finds a replica where requests wait while another has none waiting.
func lopsided(m control.Model, rs []control.Replica, waits Waits) []Finding {
	var busy, free []control.Replica
	for _, r := range serving(rs) {
		if r.Engine.Waiting > 0 && waits(r.ID) {
			busy = append(busy, r)
		} else if r.Engine.Waiting == 0 && r.Engine.KVUsed < KVFull {
			free = append(free, r)
		}
	}
	if len(busy) == 0 || len(free) == 0 {
		return nil
	}
	b, f := busy[0], free[0]
	for _, r := range busy {
		if r.Engine.Waiting > b.Engine.Waiting {
			b = r
		}
	}
	for _, r := range free {
		if r.Held < f.Held {
			f = r
		}
	}
	remedy := "The policy is already least loaded; long prompts make it uneven for a while."
	if m.Affinity {
		remedy = fmt.Sprintf("The spill limit is %d and %s holds %d: a lower one moves turns away sooner (`warden spill %s N`).", m.SpillLimit, b.ID, b.Held, m.Alias)
		if b.Held > m.SpillLimit {
			remedy = fmt.Sprintf("%s is above the spill limit of %d: further turns go elsewhere until it is not.", b.ID, m.SpillLimit)
		}
	}
	return []Finding{{
		Level: Warn, Replicas: []string{b.ID},
		Short:    fmt.Sprintf("%s: %d waiting while %s has none", b.ID, b.Engine.Waiting, f.ID),
		Cause:    fmt.Sprintf("%d %s on %s while %s has room.", b.Engine.Waiting, plural(b.Engine.Waiting, "request waits", "requests wait"), b.ID, f.ID),
		Evidence: fmt.Sprintf("%s holds %d, KV %s; %s holds %d, KV %s.", b.ID, b.Held, cell.Percent(b.Engine.KVUsed), f.ID, f.Held, cell.Percent(f.Engine.KVUsed)),
		Remedy:   remedy,
	}}
}

// saturated finds a model where requests wait on every replica: no placement helps.
func saturated(m control.Model, rs []control.Replica, waits Waits) []Finding {
	live := serving(rs)
	if len(live) == 0 {
		return nil
	}
	waiting, running, held := 0, 0, 0
	for _, r := range live {
		if r.Engine.Waiting == 0 || !waits(r.ID) {
			return nil
		}
		waiting, running, held = waiting+r.Engine.Waiting, running+r.Engine.Running, held+r.Held
	}
	return []Finding{{
		Level:    Warn,
		Short:    fmt.Sprintf("every replica has requests waiting (%d in all)", waiting),
		Cause:    fmt.Sprintf("The load is above what %d %s can do: requests wait on every one.", len(live), plural(len(live), "replica", "replicas")),
		Evidence: fmt.Sprintf("%d held, %d running, %d waiting.", held, running, waiting),
		Remedy:   fmt.Sprintf("Placement cannot help: fewer sessions at once, or more GPUs. max-num-seqs is %s.", orUnknown(m.MaxNumSeqs)),
	}}
}

// whyQueued says in words what a turn waits for; the codes are placement's.
func whyQueued(code string) string {
	switch code {
	case "":
		return "no replica has room for it"
	case "starting":
		return "no replica is ready"
	case "full":
		return "every replica holds as many requests as its engine runs"
	case "cache":
		return "no KV cache has room for its conversation beside those that are in use"
	case "retrying":
		return "every replica has just failed it"
	default:
		return code
	}
}

// queued tells of turns that warden itself holds back.
func queued(m control.Model, _ []control.Replica, _ Waits) []Finding {
	if len(m.Queue) == 0 {
		return nil
	}
	first := m.Queue[0]
	return []Finding{{
		Level:    Note,
		Short:    fmt.Sprintf("%d %s for a replica", len(m.Queue), plural(len(m.Queue), "turn waits", "turns wait")),
		Cause:    fmt.Sprintf("%d %s held back before placement: %s.", len(m.Queue), plural(len(m.Queue), "turn is", "turns are"), whyQueued(first.Why)),
		Evidence: fmt.Sprintf("Next is session %s.", first.Session),
		Remedy:   "Waiting here costs less than evicting a conversation that is in use; fewer sessions at once shorten it.",
	}}
}
