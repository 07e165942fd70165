package screen

import (
	"fmt"
	"math"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/tui/state"
)

func ptr[T any](v T) *T { return &v }

// t0 is when every test picture is drawn.
var t0 = time.Date(2026, 11, 30, 21, 14, 10, 0, time.UTC)

// figures of one replica in the pictures.
type figures struct {
	held, sticky, spill, run, wait, pre int
	kv, hit, p50, p95, prefill, decode  float64
	restarts, tokens                    int
}

var hotFigures = []figures{
	{held: 5, sticky: 6, spill: 1, run: 5, kv: 0.68, hit: 0.91, p50: 0.28, p95: 0.9, prefill: 800, decode: 104, tokens: 33000},
	{held: 6, sticky: 7, run: 6, kv: 0.79, hit: 0.88, p50: 0.34, p95: 1.0, prefill: 800, decode: 108, restarts: 1, tokens: 36000},
	{held: 4, sticky: 5, spill: 2, run: 4, kv: 0.52, hit: 0.90, p50: 0.25, p95: 0.9, prefill: 600, decode: 96, tokens: 26000},
	{held: 8, sticky: 6, run: 5, wait: 3, pre: 12, kv: 0.97, hit: 0.61, p50: 1.20, p95: 6.4, prefill: 900, decode: 104, tokens: 67000},
}

func replica(i int, f figures) control.Replica {
	return control.Replica{
		ID: fmt.Sprint("r", i), Model: "qwen3-4b", State: control.StateReady, Since: t0.Add(-2 * time.Hour), StartedAt: t0.Add(-2*time.Hour - 41*time.Second), ReadyAt: t0.Add(-2 * time.Hour),
		EstimateSeconds: ptr(40.0), Generation: uint64(1 + f.restarts), Restarts: f.restarts, PID: 4000 + i, GPUs: []int{i}, CPUs: []int{2 * i, 2*i + 1},
		Held: f.held, StickySessions: f.sticky, SpilledSessions: f.spill, RequestsTotal: uint64(100 * (i + 1)), SessionTokens: f.tokens, Sessions2m: f.sticky, SessionTokens2m: f.tokens,
		Engine: &control.Engine{At: t0, AgeSeconds: 0.4, Running: f.run, Waiting: f.wait, KVUsed: f.kv, KVCapacityTokens: 40000, Preemptions60s: ptr(uint64(f.pre)),
			PrefillTokensPerSecond: ptr(f.prefill), DecodeTokensPerSecond: ptr(f.decode), HitRate60s: ptr(f.hit)},
		TTFT: &control.Quantiles{P50: f.p50, P95: f.p95, P99: f.p95 * 2},
		PromptTokens: &control.PromptTokens{CachedPerSecond: f.prefill * f.hit / (1 - f.hit), ComputedPerSecond: f.prefill,
			CachedTotal: 4_100_000, ComputedTotal: 600_000, CachedShareHour: ptr(f.hit - 0.05)},
		Sessions: []control.Session{
			{ID: "9f3a", Client: "claude-code", Turns: 4, Tokens: 12100, LastSeen: t0.Add(-3 * time.Second), CachedShare: ptr(0.92), Home: fmt.Sprint("r", i), State: "decode", Reason: "sticky"},
			{ID: "b77d", Client: "openai", Turns: 2, Tokens: 8300, LastSeen: t0.Add(-19 * time.Second), CachedShare: ptr(0.88), Home: fmt.Sprint("r", i), State: "prefill", Reason: "sticky"},
			{ID: "41c0", Client: "claude-code", Turns: 9, Tokens: 14000, LastSeen: t0.Add(-11 * time.Second), Home: fmt.Sprint("r", i), State: "idle", Reason: "sticky"},
			{ID: "77d1", Client: "claude-code", Turns: 5, Tokens: 12900, LastSeen: t0.Add(-4 * time.Second), CachedShare: ptr(0.0), Home: "r3", State: "prefill", Reason: "spill"},
		},
	}
}

// hot is the daemon under load, with r3 overfull.
func hot() control.Status {
	s := control.Status{
		Schema: control.Schema, Version: "0.1.0", PID: 3120, StartedAt: t0.Add(-134 * time.Minute), Now: t0, Listen: "http://127.0.0.1:8000", State: control.DaemonServing,
		Models: []control.Model{{Alias: "qwen3-4b", Repo: "Qwen/Qwen3-4B-Instruct-2507", DType: "bf16", DP: 4, TP: 1, Device: "cuda", Policy: control.PolicyAffinity, Affinity: true,
			SpillLimit: 8, SpillAuto: true, MaxNumSeqs: 32, MaxModelLen: 16384, SessionsLive: 24, SessionsSeen: 311}},
		Totals: control.Totals{RequestsPerSecond: ptr(1.9), Requests: 1000, Retried: 1, Held: 23, PrefillTokensPerSecond: ptr(3100.0), DecodeTokensPerSecond: ptr(412.0), HitRate60s: ptr(0.82),
			TTFT: &control.Quantiles{P50: 0.31, P95: 1.2, P99: 4.8}, SessionsLive: 24, SessionsSeen: 311,
			Placements:      map[string]uint64{"no_key": 2, "sticky": 104, "new": 3, "spill": 5, "failover": 0},
			HitRateByReason: map[string]float64{"new": 0.33, "sticky": 0.91, "spill": 0.23}},
	}
	for i, f := range hotFigures {
		s.Replicas = append(s.Replicas, replica(i, f))
		s.GPUs = append(s.GPUs, control.GPU{Index: i, UUID: fmt.Sprint("GPU-", i), Name: "NVIDIA RTX A4000", MemoryUsedBytes: ptr(uint64(15676630630)), MemoryTotalBytes: ptr(uint64(16 << 30)),
			Utilization: ptr(0.93 + 0.02*float64(i)), PowerWatts: ptr(133 + 2*float64(i)), TemperatureC: ptr(69 + 3*float64(i))})
	}
	return s
}

// mild is the daemon under light load.
func mild() control.Status {
	s := hot()
	r3 := hotFigures[2]
	r3.spill = 0
	s.Replicas[3] = replica(3, r3)
	return s
}

func loading() control.Status {
	s := hot()
	s.State = control.DaemonStarting
	s.StartedAt = t0.Add(-38 * time.Second)
	s.Totals = control.Totals{}
	s.Models[0].SessionsLive, s.Models[0].SessionsSeen = 0, 0
	phases := []*control.Phase{
		{Name: "graphs", Done: 41, Total: 51},
		{Name: "compile", Detail: "torch.compile, first run only (then cached)"},
		{Name: "weights", Detail: "shard 2 of 3", Done: 2, Total: 3},
		nil,
	}
	for i, p := range phases {
		r := control.Replica{ID: fmt.Sprint("r", i), Model: "qwen3-4b", State: control.StateStarting, Phase: p, StartedAt: t0.Add(-time.Duration(38-8*i) * time.Second),
			Since: t0.Add(-time.Duration(38-8*i) * time.Second), Generation: 1, GPUs: []int{i}, EstimateSeconds: ptr(40.0)}
		if p == nil {
			r.State, r.StartedAt, r.Note, r.Generation = control.StatePending, time.Time{}, "waits for r0: the first start fills the compile cache", 0
		}
		s.Replicas[i] = r
	}
	s.Replicas[1].EstimateSeconds = nil
	return s
}

func ready() control.Status {
	s := loading()
	s.State = control.DaemonServing
	for i := range s.Replicas {
		r := replica(i, figures{})
		r.Engine.HitRate60s, r.TTFT, r.PromptTokens, r.Sessions, r.RequestsTotal = nil, nil, nil, nil, 0
		r.Engine.PrefillTokensPerSecond, r.Engine.DecodeTokensPerSecond = ptr(0.0), ptr(0.0)
		s.Replicas[i] = r
	}
	return s
}

func failed() control.Status {
	s := hot()
	s.State = control.DaemonServing
	oom := &control.Diagnosis{Cause: "CUDA out of memory while capturing graphs, 0.4 GiB short", Fix: "--gpu-memory-utilization 0.88 or --max-model-len 16384",
		Line: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 420.00 MiB."}
	s.Replicas[0] = control.Replica{ID: "r0", Model: "qwen3-4b", State: control.StateParked, Diagnosis: oom, Generation: 5, Restarts: 4, GPUs: []int{0}}
	s.Replicas[1] = control.Replica{ID: "r1", Model: "qwen3-4b", State: control.StateBackoff, Diagnosis: oom, Generation: 3, Restarts: 2, GPUs: []int{1}, NextRetry: t0.Add(8 * time.Second), Note: "3 of 5"}
	r2 := replica(2, hotFigures[2])
	r2.State, r2.Note, r2.Since = control.StateSuspect, "/health failing 9s (3 of 5)", t0.Add(-9*time.Second)
	s.Replicas[2] = r2
	r3 := replica(3, hotFigures[0])
	r3.State, r3.Held, r3.Since = control.StateDraining, 2, t0.Add(-41*time.Second)
	s.Replicas[3] = r3
	return s
}

// happened is the event list of the pictures.
func happened() []events.Event {
	list := []events.Event{
		{Kind: "start", Text: "4 replicas ready in 41s", At: t0.Add(-134 * time.Minute)},
		{Kind: "gpu", Replica: "r3", Text: "3 A4000 power-capped, clocks at 1410 MHz", At: t0.Add(-19 * time.Minute)},
		{Kind: events.KindAffinity, Model: "qwen3-4b", Text: "affinity turned on by uid 1000", At: t0.Add(-16 * time.Minute)},
		{Kind: events.KindExited, Replica: "r1", Text: "code 1, CUDA out of memory; restarting in 2s (1 of 5)", At: t0.Add(-13 * time.Minute)},
		{Kind: events.KindReady, Replica: "r1", Text: "38s after restart 1 (weights 6s, compile 19s, graphs 5s)", At: t0.Add(-12 * time.Minute)},
		{Kind: events.KindPlaced, Replica: "r0", Text: "session 9f3a turn 4: sticky", At: t0.Add(-20 * time.Second)},
		{Kind: events.KindSpilled, Replica: "r3", Text: "session 77d1 turn 5 -> r0 (r3 holds 8, spill limit 8)", At: t0.Add(-3 * time.Second)},
	}
	for i := range list {
		list[i].Seq = uint64(i + 1)
	}
	return list
}

var engineLog = []string{
	"INFO 11-30 21:14:05 Engine 000: Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: 104.1 tokens/s, Running: 5 reqs, Waiting: 0 reqs, GPU KV cache usage: 68.0%, Prefix cache hit rate: 91.0%",
	`INFO 11-30 21:14:09 "POST /v1/chat/completions HTTP/1.1" 200`,
	"\x1b[31mWARNING\x1b[0m 11-30 21:14:10 a log line\twith colour and a tab",
	`INFO 11-30 21:14:12 "POST /v1/messages HTTP/1.1" 200`,
}

// lived is a state that has seen a minute of a status, with load that came up slowly.
func lived(mode state.Mode, status control.Status, size state.Size) state.State {
	s := state.New(mode, false, time.UTC, t0.Add(-time.Minute))
	s, _ = state.Reduce(s, state.Resized{Size: size})
	for i := range 61 {
		st := status
		st.Now = t0.Add(time.Duration(i-60) * time.Second)
		st.Replicas = append([]control.Replica(nil), status.Replicas...)
		grown := math.Min(1, 0.2+float64(i)/50)
		for j, r := range st.Replicas {
			r.Held = int(math.Round(float64(r.Held) * grown))
			if r.Engine != nil {
				e := *r.Engine
				e.KVUsed *= grown
				r.Engine = &e
			}
			if p := r.PromptTokens; p != nil {
				q := *p
				q.CachedPerSecond *= grown * (0.8 + 0.2*math.Sin(float64(i+5*j)/4))
				r.PromptTokens = &q
			}
			st.Replicas[j] = r
		}
		if i == 60 {
			st = status
		}
		m := control.Message{Status: &st}
		if i == 0 {
			m.Recent = happened()
		}
		s, _ = state.Reduce(s, state.Told{Message: m, At: st.Now})
	}
	s, _ = state.Reduce(s, state.LogLines{Replica: "r0", Lines: engineLog, Reset: true})
	return s
}

// press sends keys one after the other.
func press(s state.State, keys ...string) state.State {
	for _, k := range keys {
		s, _ = state.Reduce(s, stroke(k))
	}
	return s
}

// named are the keys that type nothing.
var named = map[string]tea.KeyType{"enter": tea.KeyEnter, "esc": tea.KeyEscape, "tab": tea.KeyTab, "shift+tab": tea.KeyShiftTab, "up": tea.KeyUp, "down": tea.KeyDown,
	"left": tea.KeyLeft, "right": tea.KeyRight, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd, "backspace": tea.KeyBackspace,
	"ctrl+c": tea.KeyCtrlC, "ctrl+u": tea.KeyCtrlU, "ctrl+v": tea.KeyCtrlV, "ctrl+w": tea.KeyCtrlW}

// stroke is what bubbletea makes of a key, or of "paste:" and a text.
func stroke(k string) state.Pressed {
	if text, pasted := strings.CutPrefix(k, "paste:"); pasted {
		return state.Pressed{KeyMsg: tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(text), Paste: true}}
	}
	if typ, ok := named[k]; ok {
		return state.Pressed{KeyMsg: tea.KeyMsg{Type: typ}}
	}
	return state.Pressed{KeyMsg: tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(k)}}
}
