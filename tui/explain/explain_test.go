package explain

import (
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

func ptr[T any](v T) *T { return &v }

// ready is a replica with nothing wrong: half full, good hits, room for its sessions.
func ready(id string) control.Replica {
	return control.Replica{
		ID: id, Model: "m", State: control.StateReady, Held: 4, Sessions2m: 3, SessionTokens2m: 20000, GPUs: []int{int(id[1] - '0')},
		Engine: &control.Engine{Running: 4, KVUsed: 0.5, KVCapacityTokens: 40000, HitRate60s: ptr(0.9), Preemptions60s: ptr(uint64(0))},
		TTFT:   &control.Quantiles{P50: 0.3},
	}
}

func status(change func(*control.Status)) control.Status {
	s := control.Status{
		Models:   []control.Model{{Alias: "m", Affinity: true, Policy: control.PolicyAffinity, SpillLimit: 8, MaxNumSeqs: 32}},
		Replicas: []control.Replica{ready("r0"), ready("r1")},
	}
	if change != nil {
		change(&s)
	}
	return s
}

func TestFind(t *testing.T) {
	tests := []struct {
		name   string
		change func(*control.Status)
		level  Level
		about  string // replica; "" = none
		words  []string
	}{
		{"all well", nil, Fine, "", []string{"Nothing is wrong", "2 of 2 replicas ready", "40k of 80k KV tokens", "40k tokens of further"}},
		{"starting", func(s *control.Status) {
			s.Replicas[1] = control.Replica{ID: "r1", Model: "m", State: control.StateStarting}
		},
			Fine, "", []string{"1 of 2 replicas ready, the others are on their way"}},
		{"parked with diagnosis", func(s *control.Status) {
			s.Replicas[1].State = control.StateParked
			s.Replicas[1].Diagnosis = &control.Diagnosis{Cause: "CUDA out of memory", Fix: "--max-model-len 16384", Line: "torch.OutOfMemoryError"}
		}, Bad, "r1", []string{"r1 gave up: CUDA out of memory", "torch.OutOfMemoryError", "--max-model-len 16384"}},
		{"one cause for all is told once", func(s *control.Status) {
			for i := range s.Replicas {
				s.Replicas[i].State, s.Replicas[i].Note = control.StateParked, "no such model."
			}
		}, Bad, "r1", []string{"r0 and r1 gave up: no such model.", "warden logs r0 --previous"}},
		{"backoff", func(s *control.Status) { s.Replicas[0].State = control.StateBackoff },
			Warn, "r0", []string{"failed and will be started again", "the cause is not known"}},
		{"stuck", func(s *control.Status) { s.Replicas[0].State = control.StateStuck }, Bad, "r0", []string{"cannot be stopped"}},
		{"suspect", func(s *control.Status) { s.Replicas[0].State = control.StateSuspect },
			Warn, "r0", []string{"4 requests are held there", "warden restart r0"}},
		{"working set of every replica too large", func(s *control.Status) {
			for i := range s.Replicas {
				s.Replicas[i].SessionTokens2m, s.Replicas[i].Sessions2m = 67000, 6
				s.Replicas[i].Engine.HitRate60s = ptr(0.6)
			}
		}, Warn, "r0", []string{"its 6 sessions of the last 2 min need about 67k tokens", "holds about 40k", "Affinity cannot help at this load", "warden affinity off m"}},
		{"working set too large, affinity already off", func(s *control.Status) {
			s.Models[0].Affinity = false
			for i := range s.Replicas {
				s.Replicas[i].SessionTokens2m, s.Replicas[i].Engine.KVUsed = 67000, 0.95
			}
		}, Warn, "r0", []string{"fewer sessions at once"}},
		{"working set too large for admission", func(s *control.Status) {
			s.Models[0].Policy = control.PolicyAdmission
			for i := range s.Replicas {
				s.Replicas[i].SessionTokens2m, s.Replicas[i].Engine.HitRate60s = 67000, ptr(0.6)
			}
		}, Warn, "r0", []string{"as many as fit keep their prefixes, the others wait for a place", "Nobody has to wait with fewer sessions at once"}},
		{"sessions of 2 min too large for one replica, and admission places by what fits", func(s *control.Status) {
			s.Models[0].Policy = control.PolicyAdmission
			s.Replicas[1].SessionTokens2m, s.Replicas[1].Engine.HitRate60s = 41000, ptr(0.2)
			s.Replicas[0].SessionTokens2m = 1000
		}, Fine, "", []string{"Nothing is wrong"}},
		{"working set too large on one only", func(s *control.Status) {
			s.Replicas[1].SessionTokens2m, s.Replicas[1].Engine.HitRate60s = 41000, ptr(0.2)
			s.Replicas[0].SessionTokens2m = 1000
		}, Warn, "r1", []string{"other replicas have room", "warden spill m N"}},
		{"ended sessions do not count", func(s *control.Status) {
			s.Replicas[1].SessionTokens, s.Replicas[1].StickySessions, s.Replicas[1].Engine.HitRate60s = 400000, 40, ptr(0.2)
		}, Fine, "", []string{"the sessions of the last 2 min need 40k of 80k KV tokens"}},
		{"too large but hits are good: nothing to say", func(s *control.Status) { s.Replicas[1].SessionTokens2m = 41000 },
			Fine, "", []string{"Nothing is wrong"}},
		{"running requests fill the cache", func(s *control.Status) { s.Replicas[1].Engine.KVUsed, s.Replicas[1].Engine.Waiting = 0.97, 3 },
			Warn, "r1", []string{"KV cache 97%, prefixes are being evicted, 3 waiting"}},
		{"every working set too large, but hits are good", func(s *control.Status) { s.Replicas[0].SessionTokens2m, s.Replicas[1].SessionTokens2m = 60000, 60000 },
			Fine, "", []string{"the sessions of the last 2 min need 120k of 80k", "while the hits stay high"}},
		{"preemptions", func(s *control.Status) { s.Replicas[1].Engine.Preemptions60s = ptr(uint64(1)) },
			Note, "r1", []string{"1 preemption in 60 s", "--max-num-seqs` (now 32)"}},
		{"waiting beside an idle one", func(s *control.Status) { s.Replicas[1].Engine.Waiting = 2 },
			Warn, "r1", []string{"2 waiting while r0 has none", "spill limit is 8 and r1 holds 4"}},
		{"waiting, above the limit", func(s *control.Status) { s.Replicas[1].Engine.Waiting, s.Replicas[1].Held = 2, 9 },
			Warn, "r1", []string{"r1 is above the spill limit of 8"}},
		{"waiting everywhere", func(s *control.Status) { s.Replicas[0].Engine.Waiting, s.Replicas[1].Engine.Waiting = 1, 2 },
			Warn, "", []string{"every replica has requests waiting (3 in all)", "Placement cannot help"}},
		{"stale figures", func(s *control.Status) { s.Replicas[1].Engine.Stale, s.Replicas[1].Engine.AgeSeconds = true, 14.2 },
			Warn, "r1", []string{"figures are 14 s old"}},
		{"queue", func(s *control.Status) {
			s.Models[0].Queue = []control.Queued{{Session: "9f3a", Since: time.Unix(0, 0)}}
		},
			Note, "", []string{"1 turn waits for a replica", "session 9f3a", "no replica has room"}},
		{"queue for a cache", func(s *control.Status) {
			s.Models[0].Queue = []control.Queued{{Session: "9f3a", Why: "cache"}, {Session: "9f3b", Why: "cache"}}
		},
			Note, "", []string{"2 turns are held back before placement: no KV cache has room for its conversation beside those that are in use."}},
		{"slow GPU", func(s *control.Status) {
			s.GPUs = []control.GPU{{Index: 1, Name: "RTX A4000", Throttled: []string{"power cap"}, TemperatureC: ptr(78.0), PowerWatts: ptr(140.0), Utilization: ptr(0.99)}}
		}, Note, "r1", []string{"GPU 1 is slowed down: power cap", "78 °C, 140 W, 99% busy", "nvidia-smi"}},
		{"starts are held", func(s *control.Status) {
			s.Hold = &control.Hold{Cause: "library and module differ", Fix: "reboot", Since: time.Unix(0, 0)}
			s.Replicas[1].State, s.Replicas[1].Note = control.StateParked, "x"
		}, Bad, "", []string{"no engine can start, those that run go on: library and module differ", "1 of 2 replicas go on", "Reboot."}},
		{"GPU set aside, its processes still there", func(s *control.Status) {
			s.GPUs = []control.GPU{{Index: 1, Name: "L4", Replica: "r1", Aside: &control.Aside{Cause: "XID 119", Fix: "reset it"}}}
		}, Bad, "r1", []string{"GPU 1 is set aside: XID 119", "Reset it."}},
		{"GPU set aside, its replica parked: told once", func(s *control.Status) {
			s.GPUs = []control.GPU{{Index: 1, Name: "L4", Replica: "r1", Aside: &control.Aside{Cause: "XID 119", Fix: "reset it"}}}
			s.Replicas[1].State, s.Replicas[1].Diagnosis = control.StateParked, &control.Diagnosis{Cause: "its GPU is set aside: XID 119", Fix: "reset it; then retry"}
		}, Bad, "r1", []string{"r1 gave up: its GPU is set aside: XID 119", "reset it; then retry"}},
		{"GPU that cannot be read", func(s *control.Status) {
			s.GPUs = []control.GPU{{Index: 1, Name: "L4", UnavailableReason: "no permission", UnavailableFix: "join the group"}}
		}, Note, "r1", []string{"GPU 1 cannot be read: no permission", "served as before", "Join the group."}},
		{"prefix break of known cause", func(s *control.Status) {
			s.Replicas[1].Sessions = []control.Session{{ID: "41c0", Turns: 4, Tokens: 14000, Home: "r1",
				Break: &control.PrefixBreak{Cause: "system_date", Text: "the date in the system prompt changed", Fix: "set X=1"}}}
		}, Note, "r1", []string{"session 41c0 reads its history anew", "the date in the system prompt changed", "system_date", "set X=1"}},
		{"prefix breaks", func(s *control.Status) {
			s.Replicas[1].Sessions = []control.Session{
				{ID: "41c0", Turns: 9, Tokens: 14000, Home: "r1", Reason: "sticky", CachedShare: ptr(0.05), Client: "claude-code"},
				{ID: "aaaa", Turns: 9, Home: "r1", Reason: "sticky", CachedShare: ptr(0.95)},
				{ID: "bbbb", Turns: 1, Home: "r1", Reason: "new", CachedShare: ptr(0.0)},
				{ID: "cccc", Turns: 9, Home: "r0", Reason: "spill", CachedShare: ptr(0.0)},
				{ID: "dddd", Turns: 9, Home: "r1", Reason: "sticky"},
			}
		}, Note, "r1", []string{"session 41c0 stays but is read anew", "turn 9, 14k tokens, 5%", "claude-code"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := Find(status(tt.change), nil)[0]
			if got.Level != tt.level {
				t.Errorf("level %d, want %d: %+v", got.Level, tt.level, got)
			}
			if tt.about == "" && len(got.Replicas) > 0 || tt.about != "" && !got.About(tt.about) {
				t.Errorf("about %v, want %q", got.Replicas, tt.about)
			}
			all := strings.Join([]string{got.Short, got.Cause, got.Evidence, got.Remedy}, "\n")
			for _, w := range tt.words {
				if !strings.Contains(all, w) {
					t.Errorf("%q is missing in:\n%s", w, all)
				}
			}
			for _, line := range []string{got.Short, got.Cause, got.Evidence, got.Remedy} {
				if line == "" || strings.Contains(line, "\n") {
					t.Errorf("every finding has four single lines: %+v", got)
				}
			}
		})
	}
}

func TestWorstFirst(t *testing.T) {
	s := status(func(s *control.Status) {
		s.Replicas[0].Engine.Preemptions60s = ptr(uint64(3))
		s.Replicas[1].State = control.StateParked
		s.Replicas = append(s.Replicas, ready("r2"))
		s.Replicas[2].Engine.KVUsed = 0.99
	})
	var levels []Level
	for _, f := range Find(s, nil) {
		levels = append(levels, f.Level)
	}
	if len(levels) != 3 || levels[0] != Bad || levels[1] != Warn || levels[2] != Note {
		t.Errorf("levels %v", levels)
	}
}

func TestMomentaryWaitingIsNothing(t *testing.T) {
	never := func(string) bool { return false }
	for _, change := range []func(*control.Status){
		func(s *control.Status) { s.Replicas[1].Engine.Waiting = 2 },
		func(s *control.Status) { s.Replicas[0].Engine.Waiting, s.Replicas[1].Engine.Waiting = 1, 2 },
	} {
		if f := Find(status(change), never)[0]; f.Level != Fine {
			t.Errorf("%+v", f)
		}
	}
}

func TestNothingKnown(t *testing.T) {
	if f := Find(control.Status{}, nil); len(f) != 1 || f[0].Level != Fine {
		t.Errorf("%+v", f)
	}
}

func TestSpread(t *testing.T) {
	three := func(change func(r []control.Replica)) []control.Replica {
		rs := []control.Replica{ready("r0"), ready("r1"), ready("r2")}
		change(rs)
		return rs
	}
	tests := []struct {
		name    string
		rs      []control.Replica
		outlier string
	}{
		{"even", three(func([]control.Replica) {}), ""},
		{"held 4 against 8", three(func(r []control.Replica) { r[2].Held = 8 }), "r2"},
		{"held 1 against 4 is within three", three(func(r []control.Replica) { r[2].Held = 1 }), ""},
		{"held 20 against 25 is within the factor", three(func(r []control.Replica) { r[0].Held, r[1].Held, r[2].Held = 20, 20, 25 }), ""},
		{"KV", three(func(r []control.Replica) { r[1].Engine.KVUsed = 0.8 }), "r1"},
		{"KV spread while all are low", three(func(r []control.Replica) { r[1].Engine.KVUsed = 0.1 }), ""},
		{"TTFT", three(func(r []control.Replica) { r[1].TTFT.P50 = 1.2 }), "r1"},
		{"TTFT of milliseconds", three(func(r []control.Replica) { r[0].TTFT.P50, r[1].TTFT.P50, r[2].TTFT.P50 = 0.01, 0.05, 0.01 }), ""},
		{"stale ones do not count", three(func(r []control.Replica) { r[2].Held, r[2].Engine.Stale = 50, true }), ""},
	}
	for _, tt := range tests {
		s, ok := SpreadOf(tt.rs)
		if !ok || s.Outlier != tt.outlier || s.Uneven() != (tt.outlier != "") {
			t.Errorf("%s: %+v %t", tt.name, s, ok)
		}
	}
	s, _ := SpreadOf(tests[1].rs)
	if s.HeldMin != 4 || s.HeldMax != 8 || s.TTFTFactor != 1 {
		t.Errorf("%+v", s)
	}
	if _, ok := SpreadOf(tests[0].rs[:1]); ok {
		t.Error("one replica cannot be uneven")
	}
}
