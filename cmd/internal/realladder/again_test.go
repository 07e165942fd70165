package realladder

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/ladder"
)

// reportOf is one of warden's two policies under a load, in two rounds.
func reportOf(sessions int) Report {
	r := sampleReport()
	r.Arms = []string{"warden admission", "warden affinity"}
	r.Rates = []Rates{{Prefill: [3]float64{0.01, 0.0001}, Decode: [3]float64{0.005, 0.0001}, Error: 0.1}}
	r.Cells = []Cell{
		cellOf("warden admission", 0, sessions, 2000, 0.1), cellOf("warden affinity", 0, sessions, 1000, 0.5),
		cellOf("warden affinity", 1, sessions, 1000, 0.5), cellOf("warden admission", 1, sessions, 2000, 0.1),
	}
	r.Simulated = nil
	return r
}

func TestAgain(t *testing.T) {
	first, second := reportOf(12), reportOf(8)
	second.Started = first.Started.Add(time.Hour)
	second.Machine.LoadBefore = 7
	first.Seconds, second.Seconds = 6, 6
	whole, err := Again([]Report{first, second}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, rounds := whole.median("warden admission", 12); rounds != 2 || len(whole.Rates) != 2 || len(whole.Further) != 1 || whole.Machine.LoadBefore != 7 {
		t.Errorf("%d rounds, %d rates, load %v", rounds, len(whole.Rates), whole.Machine.LoadBefore)
	}
	for i, sessions := range []int{8, 12} {
		if most := figuresOfSimulated(whole.Bounds[i].Result); whole.Bounds[i].Sessions != sessions || most.TokensPerMinute <= 0 {
			t.Errorf("%d sessions: bound %+v", sessions, most)
		}
		ours, ok := whole.simulated("warden admission", sessions)
		theirs, also := whole.simulated("warden affinity", sessions)
		if !ok || !also || ours.TokensPerMinute <= 0 || theirs.TokensPerMinute <= 0 {
			t.Errorf("%d sessions: simulated %v and %v tokens/min", sessions, ours.TokensPerMinute, theirs.TokensPerMinute)
		}
		if most := figuresOfSimulated(whole.Bounds[i].Result); ours.TokensPerMinute > most.TokensPerMinute || ours.SessionsPerHour > most.SessionsPerHour {
			t.Errorf("%d sessions: %+v exceed the bound %+v", sessions, ours, most)
		}
	}
	// Past the cache, handing out more costs throughput, and affinity hands out all.
	n := len(ladder.Overcommits())
	for i, cell := range whole.TradeOffs {
		if want := ladder.Overcommits()[i%n]; cell.Policy != want || cell.Sessions != []int{8, 12}[i/n] {
			t.Errorf("trade-off %d is of %s with %d sessions, want %s", i, cell.Policy, cell.Sessions, want)
		}
	}
	if len(whole.TradeOffs) != 2*n || whole.TradeOffs[2*n-1].OutputPerMinute > whole.TradeOffs[n].OutputPerMinute {
		t.Errorf("%d cells of trade-offs, 12 sessions: %.0f tokens/min with affinity, %.0f with the least handed out",
			len(whole.TradeOffs), whole.TradeOffs[2*n-1].OutputPerMinute, whole.TradeOffs[n].OutputPerMinute)
	}
}

// A machine that is shared is not as fast in one run as in the next.
func TestEachLoadHasTheRatesOfItsRun(t *testing.T) {
	first, second := reportOf(12), reportOf(8)
	second.Rates[0].Decode[0] = 0.010
	first.Seconds, second.Seconds = 1, 1
	rates := Report{Machine: first.Machine, Rates: []Rates{{Cached: 4e-6}, {Cached: 6e-6}}}
	whole, err := Again([]Report{first, rates, second}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if slow, fast := whole.ratesFor(8).Decode[0], whole.ratesFor(12).Decode[0]; slow != 0.010 || fast != 0.005 {
		t.Errorf("a decode step takes %v s at 8 sessions, %v s at 12", slow, fast)
	}
	if got := mean(whole.Rates); math.Abs(got.Cached-5e-6) > 1e-9 || got.Decode[0] != 0.0075 {
		t.Errorf("mean of all %+v", got)
	}
	if len(whole.Further) != 1 {
		t.Errorf("begun %v", whole.Further)
	}
	if other := whole.ratesFor(4); other.Decode[0] != 0.0075 {
		t.Errorf("a load of no run: %+v", other)
	}
	rates.Machine.Versions = map[string]string{"vllm": "1"}
	if _, err := Again([]Report{first, rates}, 1); err == nil || !strings.Contains(err.Error(), "or versions") {
		t.Errorf("error %v for another vLLM's rates", err)
	}
}

func TestOnlyLikeRunsGoTogether(t *testing.T) {
	for says, change := range map[string]func(*Report){
		"different arms":     func(r *Report) { r.Arms = r.Arms[:1] },
		"different loads":    func(r *Report) { r.Seconds = 60 },
		"different machines": func(r *Report) { r.Machine.Cores = []int{0} },
		"or versions":        func(r *Report) { r.Machine.Versions = map[string]string{"vllm": "1"} },
	} {
		other := reportOf(12)
		change(&other)
		if _, err := Again([]Report{reportOf(12), other}, 1); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error %v, want %q", err, says)
		}
	}
	for name, none := range map[string][]Report{"no report": nil, "a report of nothing": {{}}} {
		if _, err := Again(none, 1); err == nil {
			t.Errorf("no error for %s", name)
		}
	}
}

// The load's first prompts were 2,737 tokens on real vLLM, on average; the
// simulated ones are as long.
func TestPromptsAreAsLongAsMeasured(t *testing.T) {
	s := shape()
	long := workload(12)
	if first := long.Shared + long.First; first < 2734 || first > 2740 {
		t.Errorf("%d tokens in a first prompt", first)
	}
	if extra := long.Next - s.Next; extra != 24 { // two ends, two beginnings, a role each, half a word
		t.Errorf("%d tokens beside a further message", extra)
	}
}
