package ladder

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement"
)

// brief is the length of a cell in tests: enough for the order of policies.
var brief = Times{Warmup: time.Minute, Length: 4 * time.Minute}

func reference(t *testing.T) Fleet {
	t.Helper()
	f, err := ReferenceFleet()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func play(t *testing.T, policy string, w Workload, f Fleet) Result {
	t.Helper()
	return playFor(t, brief, policy, w, f)
}

func playFor(t *testing.T, times Times, policy string, w Workload, f Fleet) Result {
	t.Helper()
	r, err := PlayNamed(Run{Work: w, Fleet: f, Seed: 1, Warmup: times.Warmup, Length: times.Length}, policy)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Past the knee admission must keep what it promises against affinity.
func TestAdmissionPastTheKnee(t *testing.T) {
	tests := []struct {
		name  string
		work  Workload
		small bool
		// bounds against affinity in the same load
		tokens, session float64 // at least, at most
		hits            float64 // at least
	}{
		{"16 sessions, 36k", Reference(16), true, 1.15, 0.85, 0.80},
		{"24 sessions", Reference(24), false, 1.45, 0.70, 0.80},
		{"32 sessions", Reference(32), false, 1.45, 0.70, 0.80},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := reference(t)
			if tt.small {
				f = f.WithKV(smallKV)
			}
			adm, aff := play(t, placement.PolicyAdmission, tt.work, f), play(t, placement.PolicyAffinity, tt.work, f)
			if adm.TTFB.P50 > 0.5 {
				t.Errorf("p50 %.2f s, at most 0.5", adm.TTFB.P50)
			}
			if got := adm.OutputPerMinute / aff.OutputPerMinute; got < tt.tokens {
				t.Errorf("%.2f of affinity's tokens a minute, at least %.2f", got, tt.tokens)
			}
			if got := adm.Session.P50 / aff.Session.P50; got > tt.session {
				t.Errorf("session time %.2f of affinity's, at most %.2f", got, tt.session)
			}
			if adm.HitRate < tt.hits {
				t.Errorf("hit rate %.2f, at least %.2f", adm.HitRate, tt.hits)
			}
			if adm.Rejected > 0 || adm.MaxWait > 200 {
				t.Errorf("%d refused, longest wait %.0f s", adm.Rejected, adm.MaxWait)
			}
		})
	}
}

// With a host tier giving way is cheap: then median, tail and throughput beat
// every policy on the plain engines together.
func TestAdmissionWithAHostTier(t *testing.T) {
	t.Parallel()
	f := reference(t)
	host, err := f.WithHost(16)
	if err != nil {
		t.Fatal(err)
	}
	near := playFor(t, Full(), placement.PolicyAdmission, Reference(16), host)
	if plain := playFor(t, Full(), placement.PolicyAffinity, Reference(16), f); near.TTFB.P95 > 1.05*plain.TTFB.P95 {
		t.Errorf("16 sessions: p95 %.2f, affinity without the tier %.2f", near.TTFB.P95, plain.TTFB.P95)
	}
	adm := playFor(t, Full(), placement.PolicyAdmission, Reference(24), host)
	for _, name := range []string{placement.PolicyAffinity, "round-robin", "dp-0.27", "dynamo", "consistent-hash"} {
		r := playFor(t, Full(), name, Reference(24), f)
		t.Logf("p50 %.2f, %s %.2f; p95 %.2f, %.2f", adm.TTFB.P50, name, r.TTFB.P50, adm.TTFB.P95, r.TTFB.P95)
		if adm.TTFB.P50 >= r.TTFB.P50 || adm.TTFB.P95 >= r.TTFB.P95 || adm.OutputPerMinute <= r.OutputPerMinute {
			t.Errorf("24 sessions: p50 %.2f, p95 %.2f, %.0f tokens a minute; %s without the tier %.2f, %.2f, %.0f",
				adm.TTFB.P50, adm.TTFB.P95, adm.OutputPerMinute, name, r.TTFB.P50, r.TTFB.P95, r.OutputPerMinute)
		}
	}
}

// In long conversations few turns are first ones, so the wait leaves even p95.
func TestAdmissionWithManyTurns(t *testing.T) {
	t.Parallel()
	f := reference(t)
	adm := playFor(t, Short(), placement.PolicyAdmission, LongTurns(24), f)
	aff := playFor(t, Short(), placement.PolicyAffinity, LongTurns(24), f)
	if adm.TTFB.P50 >= aff.TTFB.P50 || adm.TTFB.P95 >= 0.5*aff.TTFB.P95 || adm.TurnsPerMinute < 4*aff.TurnsPerMinute {
		t.Errorf("p50 %.2f against %.2f, p95 %.2f against %.2f, turns a minute %.0f against %.0f",
			adm.TTFB.P50, aff.TTFB.P50, adm.TTFB.P95, aff.TTFB.P95, adm.TurnsPerMinute, aff.TurnsPerMinute)
	}
}

// In 30 full turns conversations grow to more than half a cache, so large ones must
// get their room without caches standing empty meanwhile.
func TestAdmissionWithLargeConversations(t *testing.T) {
	t.Parallel()
	f := reference(t)
	adm := playFor(t, Full(), placement.PolicyAdmission, LongSessions(24), f)
	aff := playFor(t, Full(), placement.PolicyAffinity, LongSessions(24), f)
	if adm.TTFB.P50 > 0.5 || adm.TTFB.P95 > 1.55*aff.TTFB.P95 || adm.TurnsPerMinute < 1.7*aff.TurnsPerMinute || adm.MaxWait > 200 {
		t.Errorf("p50 %.2f against %.2f, p95 %.1f against %.1f, turns a minute %.1f against %.1f, longest wait %.0f s",
			adm.TTFB.P50, aff.TTFB.P50, adm.TTFB.P95, aff.TTFB.P95, adm.TurnsPerMinute, aff.TurnsPerMinute, adm.MaxWait)
	}
}

// While everything fits, or pauses make holding useless, admission must not cost
// anything.
func TestAdmissionCostsNothingElsewhere(t *testing.T) {
	tests := []struct {
		name string
		work Workload
		slow bool
		p95  float64 // of affinity's at most, 0: no bound
	}{
		{"4 sessions", Reference(4), false, 1.05},
		{"8 sessions", Reference(8), false, 1.05},
		{"12 sessions", Reference(12), false, 1.05},
		{"16 sessions", Reference(16), false, 0},
		{"16 sessions, gap 5 s", Gapped(16, 5*time.Second), false, 0},
		{"24 sessions, gap 15 s", Gapped(24, 15*time.Second), false, 1.05},
		{"0.2 sessions a second", OpenLoop(0.2), false, 1},
		{"sub-agents", Subagents(8), false, 1.05},
		{"giants", Giants(8), false, 1.05},
		{"slow GPU", Reference(12), true, 1.1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := reference(t)
			if tt.slow {
				f = f.WithSlow(0.12)
			}
			adm, aff := play(t, placement.PolicyAdmission, tt.work, f), play(t, placement.PolicyAffinity, tt.work, f)
			if adm.TurnsPerMinute < 0.97*aff.TurnsPerMinute {
				t.Errorf("%.1f turns a minute, affinity %.1f", adm.TurnsPerMinute, aff.TurnsPerMinute)
			}
			if tt.p95 > 0 && adm.TTFB.P95 > tt.p95*aff.TTFB.P95 {
				t.Errorf("p95 %.2f s, affinity %.2f", adm.TTFB.P95, aff.TTFB.P95)
			}
		})
	}
}

// Little's law must hold in every closed loop, whatever the policy: otherwise
// turns are lost or counted twice.
func TestEveryPolicyKeepsItsBooks(t *testing.T) {
	for _, name := range Policies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := play(t, name, Reference(8), reference(t))
			if r.Little < 0.95 || r.Little > 1.05 {
				t.Errorf("(TTFB + decode + gap) x rate / sessions = %.3f, want 1", r.Little)
			}
			if r.Turns == 0 || r.Unfinished > 8 || r.Rejected > 0 {
				t.Errorf("%d turns, %d open at the end, %d refused", r.Turns, r.Unfinished, r.Rejected)
			}
			sum := 0
			for _, n := range r.PerEngine {
				sum += n
			}
			if sum != r.Turns {
				t.Errorf("engines finished %d turns, clients %d", sum, r.Turns)
			}
			if r.HitRate > r.IdealHitRate+0.01 {
				t.Errorf("hit rate %.3f above the ideal %.3f", r.HitRate, r.IdealHitRate)
			}
		})
	}
}

func TestSameSeedSameFigures(t *testing.T) {
	f := reference(t)
	a, b := play(t, placement.PolicyAdmission, Reference(16), f), play(t, placement.PolicyAdmission, Reference(16), f)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("two runs with one seed differ:\n%+v\n%+v", a, b)
	}
}

func TestReplicaDeath(t *testing.T) {
	for _, name := range []string{placement.PolicyAdmission, placement.PolicyAffinity, placement.PolicyBalance, "stick-table"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := reference(t).WithDeath(2*time.Minute, 30*time.Second)
			r := play(t, name, Reference(12), f)
			if r.Rejected > 0 {
				t.Errorf("%d turns refused although three replicas were there", r.Rejected)
			}
			if r.Broken > 3 {
				t.Errorf("%d streams broke, the dead replica had at most 3", r.Broken)
			}
			if r.PerEngine[0] == 0 {
				t.Error("nothing was placed on the replica after its return")
			}
			if r.Little < 0.9 || r.Little > 1.1 {
				t.Errorf("Little %.3f: turns were lost", r.Little)
			}
		})
	}
}

func TestReport(t *testing.T) {
	rungs, err := Rungs(Times{Warmup: 10 * time.Second, Length: 20 * time.Second}, 1)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Climb([]Rung{{Group: rungs[0].Group, Name: rungs[0].Name, Run: rungs[0].Run, Policies: []string{"affinity", "dynamo"}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var md, js bytes.Buffer
	if err := rep.WriteMarkdown(&md); err != nil {
		t.Fatal(err)
	}
	if err := rep.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"SIMULATED", "| affinity |", "| dynamo |", ReferenceProfile} {
		if !strings.Contains(md.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, md.String())
		}
	}
	var back Report
	if err := json.Unmarshal(js.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if !back.Simulated || !reflect.DeepEqual(back.Cells, rep.Cells) {
		t.Error("the JSON report does not say SIMULATED or lost figures")
	}
}

// Cells of another run may stand in a report only if they were played alike, and
// they come next to those that they are compared with.
func TestReportsJoin(t *testing.T) {
	cell := func(group, rung, level string) Cell {
		return Cell{Group: group, Rung: rung, Result: Result{Level: level}}
	}
	rep := Report{Seed: 1, Length: 20, Cells: []Cell{cell("a", "1", "placer"), cell("b", "1", "placer"), cell("a", "2", "placer")}}
	if err := rep.Join(Report{Seed: 2, Length: 20}); err == nil {
		t.Error("a report with another seed was taken")
	}
	other := Report{Seed: 1, Length: 20, Cells: []Cell{cell("a", "1", "router"), cell("a", "3", "router")}}
	if err := rep.Join(other); err != nil {
		t.Fatal(err)
	}
	rep.ByGroup()
	want := []Cell{cell("a", "1", "placer"), cell("a", "1", "router"), cell("a", "2", "placer"), cell("b", "1", "placer")}
	if !reflect.DeepEqual(rep.Cells, want) {
		t.Errorf("got %+v", rep.Cells)
	}
}

func TestUnknownPolicy(t *testing.T) {
	if _, err := NewPolicy("best", Run{}); err == nil || !strings.Contains(err.Error(), "lmetric") {
		t.Errorf("error %v does not name the policies there are", err)
	}
}
