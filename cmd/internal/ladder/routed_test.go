package ladder

import (
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lm-warden/warden/router/placement"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// routerReport is how `make ladder` plays the router's part: a bubble of
// virtual time exists in tests only.
var routerReport = flag.String("router", "", "play all rungs of the router at full length and write their cells to this file")

// The decision alone and the router as it serves must give the same figures:
// what the ladder finds about policies then holds for warden.
func TestRouterAgreesWithPlacer(t *testing.T) {
	times := Times{Warmup: 30 * time.Second, Length: 150 * time.Second}
	loads := []int{8, 16, 24}
	brief := map[int]string{16: placement.PolicyBalance, 24: placement.PolicyAffinity} // beside admission
	if *routerReport != "" {
		times, loads = Full(), ladderSessions()
	}
	rungs, err := RoutedRungs(times, 1)
	if err != nil {
		t.Fatal(err)
	}
	report := Report{Simulated: true, Profile: ReferenceProfile, Warmup: times.Warmup.Seconds(), Length: times.Length.Seconds(), Seed: 1}
	for _, rung := range rungs {
		for _, policy := range rung.Policies {
			if !slices.Contains(loads, rung.Run.Work.Sessions) {
				continue
			}
			if *routerReport == "" && policy != placement.PolicyAdmission && policy != brief[rung.Run.Work.Sessions] {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", rung.Name, policy), func(t *testing.T) {
				routed := playRouted(t, rung.Run, policy)
				placed, err := PlayNamed(rung.Run, policy)
				if err != nil {
					t.Fatal(err)
				}
				t.Logf("router, placer: p50 %.2f %.2f, p95 %.1f %.1f, turns/min %.1f %.1f, hits %.3f %.3f",
					routed.TTFB.P50, placed.TTFB.P50, routed.TTFB.P95, placed.TTFB.P95,
					routed.TurnsPerMinute, placed.TurnsPerMinute, routed.HitRate, placed.HitRate)
				compare(t, routed, placed, *routerReport != "")
				report.Cells = append(report.Cells, Cell{Group: rung.Group, Rung: rung.Name, Result: routed})
			})
		}
	}
	if *routerReport != "" {
		writeReport(t, report)
	}
}

func playRouted(t *testing.T, r Run, policy string) (res Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if res, err = PlayRouted(r, policy); err != nil {
			t.Fatal(err)
		}
	})
	return res
}

// compare holds the two levels to each other. Only long runs compare the p95,
// which rests on a twentieth of the turns (at 16 sessions, where all nearly fits,
// another seed alone moves it by 12 %), and the median session time: a short run
// ends some forty sessions.
func compare(t *testing.T, routed, placed Result, long bool) {
	t.Helper()
	near := func(what string, got, want, share, least float64) {
		if math.Abs(got-want) > max(share*want, least) {
			t.Errorf("%s: %.3f through the router, %.3f by the placer alone; at most %.0f %% or %.3f apart", what, got, want, 100*share, least)
		}
	}
	near("turns a minute", routed.TurnsPerMinute, placed.TurnsPerMinute, 0.04, 0)
	near("tokens a minute", routed.OutputPerMinute, placed.OutputPerMinute, 0.05, 0)
	hits := 0.03 // of four minutes: where turns end in another order, one conversation more or less gives way
	if long {
		hits = 0.02
	}
	near("hit rate", routed.HitRate, placed.HitRate, 0, hits)
	near("p50", routed.TTFB.P50, placed.TTFB.P50, 0.05, 0.05)
	if long {
		near("session time", routed.Session.P50, placed.Session.P50, 0.07, 0)
		near("p95", routed.TTFB.P95, placed.TTFB.P95, 0.15, 0.2)
		near("Little's law", routed.Little, 1, 0.03, 0)
	}
	if routed.Rejected > 0 || routed.Broken > 0 {
		t.Errorf("%d turns refused, %d broken", routed.Rejected, routed.Broken)
	}
	// Short runs begin with turns that came before them.
	near("Little's law", routed.Little, 1, 0.15, 0)
}

func writeReport(t *testing.T, r Report) {
	t.Helper()
	f, err := os.Create(*routerReport)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.WriteJSON(f); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A text must have the tokens that its script asks for, or the two levels would
// not play the same load.
func TestWordsAreTokens(t *testing.T) {
	for _, spread := range []float64{0.9, 1, 1.1} {
		for _, n := range []int{1, 17, 3500} {
			text := words(7, n, spread)
			if got := len(tokensOf(text)); got != n {
				t.Errorf("spread %.1f: %d tokens, want %d", spread, got, n)
			}
			if got := float64(len(text)) / float64(n) / 4; n > 1000 && math.Abs(got-spread) > 0.01 {
				t.Errorf("%.3f times four characters a token, want %.1f", got, spread)
			}
		}
	}
}

// A client that is refused waits as it was told; who does not say how long is an
// error, not a client that asks again at once.
func TestRefusedClientWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &talk{run: &routed{}}
		refusal := func(after string) *http.Response {
			return &http.Response{Header: http.Header{"Retry-After": {after}}, Body: http.NoBody}
		}
		began := time.Now()
		if err := c.refused(t.Context(), refusal("3")); err != nil || time.Since(began) != 3*time.Second || c.run.log.rejected != 1 {
			t.Errorf("waited %v, %d refused, %v", time.Since(began), c.run.log.rejected, err)
		}
		if err := c.refused(t.Context(), refusal("")); err == nil {
			t.Error("a refusal without a time was taken")
		}
	})
}

// What PlayRouted cannot play it must refuse, not play as something else.
func TestRoutedRefusesWhatItCannotPlay(t *testing.T) {
	f := reference(t)
	for name, r := range map[string]Run{
		"open loop":  {Work: OpenLoop(0.2), Fleet: f},
		"sub-agents": {Work: Subagents(4), Fleet: f},
		"death":      {Work: Reference(4), Fleet: f.WithDeath(time.Minute, time.Minute)},
	} {
		if _, err := PlayRouted(r, placement.PolicyAffinity); err == nil {
			t.Errorf("%s was played", name)
		}
	}
}
