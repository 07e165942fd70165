package survival

import (
	"math"
	"testing"
	"time"
)

var zero = time.Unix(1000, 0)

func at(seconds float64) time.Time { return zero.Add(time.Duration(seconds * float64(time.Second))) }

// taught has learned the given gaps often enough to forget the prior.
func taught(gaps ...float64) *Gaps[int] {
	g := New[int]()
	now := 0.0
	for i := range gapSamples {
		gap := gaps[i%len(gaps)]
		g.Leave(i, at(now))
		if math.IsInf(gap, 1) {
			now += Horizon.Seconds()
			g.Lose(at(now))
		} else {
			now += gap
			g.Back(i, at(now-gap), at(now))
		}
	}
	return g
}

func TestReturns(t *testing.T) {
	never := math.Inf(1)
	tests := []struct {
		name string
		gaps []float64
		idle float64
		more float64
		want float64
	}{
		{"all come back at once", []float64{0}, 0, 1, 1},
		{"whoever has not come by then does not", []float64{0}, 0.5, 10, 0},
		{"a gap of exactly the idle time still counts", []float64{2}, 2, 1, 1},
		{"up to and including the end", []float64{2, never}, 0, 2, 0.5},
		{"just too short", []float64{2, never}, 0, 1.99, 0},
		{"half of those left", []float64{1, 5, never, never}, 2, 10, 1.0 / 3},
		{"beyond all experience", []float64{1, 2, 3}, 4, 100, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := taught(tt.gaps...)
			now := at(1e6)
			left := now.Add(-time.Duration(tt.idle * float64(time.Second)))
			got := g.Returns(left, now, time.Duration(tt.more*float64(time.Second)))
			if math.Abs(got-tt.want) > 0.01 {
				t.Errorf("got %.3f, want %.3f", got, tt.want)
			}
		})
	}
}

func TestThoseAwayCount(t *testing.T) {
	g := taught(1, 20)
	now := 1e6
	before := g.Returns(at(now-10), at(now), 15*time.Second)
	for i := range 300 { // away for 30 s: past both 1 and 20 s
		g.Leave(1000+i, at(now-30))
	}
	after := g.Returns(at(now-10), at(now), 15*time.Second)
	if before < 0.99 || after > 0.5 {
		t.Errorf("%.2f before, %.2f after 300 had stayed away; want 1 and at most 1/2", before, after)
	}
	// Those whose time has not come say nothing yet.
	h := taught(1, 20)
	for i := range 300 {
		h.Leave(1000+i, at(now-12))
	}
	if got := h.Returns(at(now-10), at(now), 15*time.Second); got < 0.99 {
		t.Errorf("%.2f although nobody has stayed away beyond the window", got)
	}
}

func TestBackAndLose(t *testing.T) {
	g := New[string]()
	g.Leave("a", at(0))
	g.Leave("b", at(0))
	g.Leave("c", at(1))
	g.Back("b", at(0), at(2))
	g.Back("b", at(0), at(3)) // not away any more
	if len(g.away) != 2 {
		t.Fatalf("%d away, want 2", len(g.away))
	}
	if _, ok := g.Lose(at(59.9)); ok {
		t.Error("lost before the horizon")
	}
	if who, ok := g.Lose(at(60)); !ok || who != "a" {
		t.Errorf("lost %q, %v", who, ok)
	}
	if _, ok := g.Lose(at(60)); ok {
		t.Error("c is lost a second early")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	g := taught(1, 2, 3)
	if len(g.ring) != gapSamples || len(g.sorted) != gapSamples || len(g.away) != 0 {
		t.Errorf("%d in the ring, %d sorted, %d away", len(g.ring), len(g.sorted), len(g.away))
	}
	for i := 1; i < len(g.sorted); i++ {
		if g.sorted[i] < g.sorted[i-1] {
			t.Fatal("not sorted")
		}
	}
}
