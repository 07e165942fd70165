package advice

import (
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// busy is a minute of the reference machine: four replicas of 40,000 tokens.
func busy(sessions int, change func(*control.Minute)) control.Minute {
	m := control.Minute{
		Ready: 4, Sessions: float64(sessions), PeakSessions: sessions, Need: float64(11_000 * sessions), PeakNeed: 11_000 * sessions,
		LargestSession: 15_000, Capacity: 160_000, SmallestCapacity: 40_000, Held: 3,
		QueriedTokens: 100_000, HitTokens: 87_000,
	}
	if change != nil {
		change(&m)
	}
	return m
}

func hour(m control.Minute) []control.Minute {
	var out []control.Minute
	for range 60 {
		out = append(out, m)
	}
	return out
}

func TestSum(t *testing.T) {
	idle := control.Minute{Ready: 4, Capacity: 160_000, SmallestCapacity: 40_000, Sessions: 9, Need: 90_000}
	l := Sum([]control.Minute{idle, busy(8, nil), busy(24, func(m *control.Minute) { m.HitTokens, m.Preemptions, m.PeakQueued = 13_000, 2, 5 }), idle})
	if l.Minutes != 2 || l.Sessions != 16 || l.PeakSessions != 24 || l.SessionTokens != 11_000 || l.Need != 176_000 || l.PeakNeed != 264_000 ||
		l.Over != 1 || *l.HitRate != 0.5 || l.HostHitRate != nil || l.Preemptions != 2 || l.PeakQueued != 5 || l.Fits() != 14 {
		t.Errorf("%+v, fits %d", l, l.Fits())
	}
	if l := Sum(nil); l.Minutes != 0 || l.Fits() != 0 {
		t.Errorf("nothing: %+v", l)
	}
	// A replica that stopped answering does not make the machine smaller in hindsight.
	if l := Sum([]control.Minute{busy(8, nil), busy(8, func(m *control.Minute) { m.Capacity, m.SmallestCapacity = 0, 0 })}); l.Capacity != 160_000 {
		t.Errorf("capacity %d", l.Capacity)
	}
}

// model is the reference machine's.
func model(change func(*control.Model)) control.Model {
	m := control.Model{
		Alias: "m", DP: 4, TP: 1, Device: "cuda", Policy: control.PolicyAffinity, MaxNumSeqs: 32, MaxModelLen: 40_000,
		KVTokenBytes: 147_456, WeightsBytes: 8_000_000_000, FP8KV: "no",
		KVOffload: &control.KVOffload{Reason: "off as configured", ConfiguredOff: true, PossibleGiB: 16},
	}
	if change != nil {
		change(&m)
	}
	return m
}

func TestVerdicts(t *testing.T) {
	tests := []struct {
		name    string
		minutes []control.Minute
		want    Verdict
		summary string
	}{
		{"nothing seen", nil, NoLoad, "no load yet, and no replica"},
		{"no load", hour(control.Minute{Ready: 4, Capacity: 160_000, SmallestCapacity: 40_000}), NoLoad, "no load yet; the KV cache holds 160k tokens"},
		{"fits", hour(busy(8, nil)), Fits, "fit: at most 88k of 160k KV tokens; 87%"},
		{"nearly full", hour(busy(13, nil)), Tight, "at most 143k of 160k tokens, above it in 0 of 60 minutes"},
		{"over now and then", append(hour(busy(8, nil)), busy(24, nil)), Tight, "above it in 1 of 61 minutes"},
		{"over", hour(busy(24, func(m *control.Minute) { m.HitTokens = 29_000 })), Over, "need up to 264k tokens and the KV cache holds 160k (above it in 60 of 60 minutes): prefixes evict each other; 29%"},
		{"over, but hits are good: a shared prompt, or pauses", hour(busy(24, nil)), Tight, "above it in 60 of 60"},
		{"over, held back by admission", hour(busy(24, func(m *control.Minute) { m.PeakQueued = 8 })), Over, "need up to"},
	}
	for _, tt := range tests {
		got := judge(model(nil), Sum(tt.minutes))
		if got.Verdict != tt.want || !strings.Contains(got.Summary, tt.summary) {
			t.Errorf("%s: %s, %q; want %s, %q", tt.name, got.Verdict, got.Summary, tt.want, tt.summary)
		}
		if (len(got.Remedies) > 0) != (tt.want == Tight || tt.want == Over) {
			t.Errorf("%s: %d remedies", tt.name, len(got.Remedies))
		}
	}
}

func TestRemedies(t *testing.T) {
	over := Sum(hour(busy(24, func(m *control.Minute) { m.HitTokens = 29_000 })))
	giant := over
	giant.LargestSession, giant.Preemptions = 30_000, 3
	loaded := over
	half := 0.5
	loaded.HostHitRate = &half
	tests := []struct {
		name     string
		model    control.Model
		load     Load
		kind     string
		helps    bool
		text     string
		try      string
		sessions int
	}{
		{"fewer sessions", model(nil), over, FewerSessions, true, "about 14 conversations of 11k tokens fit at once, and there were up to 24", "", 14},
		{"admission", model(nil), over, Admission, true, "wait as a whole", "`warden affinity admission m`", 0},
		{"no admission twice", model(func(m *control.Model) { m.Policy = control.PolicyAdmission }), over, Admission, false, "", "", -1},
		{"tier switched off", model(nil), over, HostTier, true, "16 GiB of this machine's memory a replica would keep 117k tokens more", "`kv_offload: auto`", 42},
		{"tier off for both reasons", model(func(m *control.Model) { m.KVOffload.Warning = "off: the model has sliding attention layers" }), over, HostTier, false, "sliding attention layers", "", 0},
		{"tier not possible", model(func(m *control.Model) {
			*m.KVOffload = control.KVOffload{Reason: "off: the model has sliding attention layers"}
		}), over, HostTier, false, "sliding attention layers", "", 0},
		{"tier off, no memory", model(func(m *control.Model) { m.KVOffload.PossibleGiB = 2 }), over, HostTier, false, "2 GiB, which this machine's memory allows a replica, are too little", "", 0},
		{"tier on", model(func(m *control.Model) { *m.KVOffload = control.KVOffload{GiB: 16, Tokens: 116_508} }), loaded, HostTier, false, "16 GiB a replica (117k tokens): 50% of what", "", 0},
		{"fp8 on Ampere", model(nil), over, FP8KV, false, "no 8-bit floats", "", 0},
		{"fp8 on Hopper", model(func(m *control.Model) { m.FP8KV = "good" }), over, FP8KV, true, "read it well", "--kv-cache-dtype fp8", 28},
		{"fp8 on Ada", model(func(m *control.Model) { m.FP8KV = "measure" }), over, FP8KV, true, "so measure", "--kv-cache-dtype fp8", 28},
		{"fp8 chosen already", model(func(m *control.Model) {
			m.FP8KV, m.Settings = "good", []control.Setting{{Flag: "--kv-cache-dtype", Value: "fp8", By: control.ByUser}}
		}), over, FP8KV, false, "", "", -1},
		{"two as one", model(nil), over, TensorParallel, true, "about 134k tokens each instead of 40k", "`--tp 2 --dp 2`", 24},
		{"small weights are no reason", model(func(m *control.Model) { m.WeightsBytes = 1_000_000_000 }), over, TensorParallel, false, "", "", -1},
		{"one replica", model(func(m *control.Model) { m.DP = 1 }), over, TensorParallel, false, "", "", -1},
		{"a giant", model(func(m *control.Model) { m.WeightsBytes = 1_000_000_000 }), giant, TensorParallel, true, "longest conversation (30k) takes more than half", "", 15},
		{"shorter context", model(nil), giant, Context, true, "had 30k tokens of a replica's 40k", "`-- --max-model-len 19K`", 0},
		{"no giant", model(nil), over, Context, false, "", "", -1},
		{"preemptions", model(nil), giant, BatchLimit, true, "thrown back", "`max_num_seqs: 4` (now 32)", 0},
	}
	for _, tt := range tests {
		found := false
		for _, r := range Remedies(tt.model, tt.load) {
			if r.Kind != tt.kind {
				continue
			}
			found = true
			if r.Helps != tt.helps || !strings.Contains(r.Text, tt.text) || !strings.Contains(r.Try, tt.try) || r.Sessions != tt.sessions {
				t.Errorf("%s: %+v, want helps %t, %q, %q, %d sessions", tt.name, r, tt.helps, tt.text, tt.try, tt.sessions)
			}
			if strings.Contains(r.Text, "\n") || r.Text == "" {
				t.Errorf("%s: one line each: %q", tt.name, r.Text)
			}
		}
		if found != (tt.sessions >= 0) {
			t.Errorf("%s: given %t", tt.name, found)
		}
	}
}

func TestAdviseLooksBackAnHour(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := control.Status{Simulated: true, Models: []control.Model{model(nil), model(func(m *control.Model) { m.Alias = "other" })}}
	for _, tt := range []struct {
		started, since time.Time
	}{{now.Add(-5 * time.Hour), now.Add(-time.Hour)}, {now.Add(-5 * time.Minute), now.Add(-5 * time.Minute)}} {
		r := Advise(control.History{Now: now, Started: tt.started, Models: []control.ModelHistory{{Alias: "m", Minutes: hour(busy(8, nil))}}}, s)
		if !r.Since.Equal(tt.since) || !r.Simulated || len(r.Models) != 2 || r.Models[0].Verdict != Fits || r.Models[1].Verdict != NoLoad {
			t.Errorf("%+v", r)
		}
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0", 950: "950", 1_000: "1k", 9_500: "9.5k", 9_960: "10k", 40_000: "40k", 999_700: "1M", 1_250_000: "1.2M"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestBrieflyAtThisMoment(t *testing.T) {
	replica := func(need int) control.Replica {
		return control.Replica{Sessions2m: 6, SessionTokens2m: need, Engine: &control.Engine{KVCapacityTokens: 40_000}}
	}
	l := Now([]control.Replica{replica(66_000), replica(66_000), {}, {Engine: &control.Engine{}}})
	if l.Capacity != 80_000 || l.Replica != 40_000 || l.Need != 132_000 || l.PeakSessions != 12 || l.Fits() != 7 {
		t.Errorf("%+v", l)
	}
	m := model(func(m *control.Model) { m.FP8KV, m.WeightsBytes = "good", 0 })
	want := "fewer sessions at once (about 7 fit), `warden affinity admission m`, `kv_offload: auto`, `-- --kv-cache-dtype fp8`"
	if got := Briefly(m, l); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := Briefly(control.Model{Policy: control.PolicyAdmission}, Load{}); got != "fewer sessions at once" {
		t.Errorf("nothing known: %s", got)
	}
}
