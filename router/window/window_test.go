package window

import (
	"math"
	"math/rand"
	"slices"
	"testing"
	"time"
)

var epoch = time.Unix(1_000_000, 0)

func at(s float64) time.Time { return epoch.Add(time.Duration(s * float64(time.Second))) }

func TestSumsForgetsWhatIsOlderThanTheSpan(t *testing.T) {
	s := NewSums(epoch, time.Second, 10)
	s.Add(at(0.5), 0, 5)
	s.Add(at(3.2), 0, 7)
	s.Add(at(3.9), 1, 1)
	for _, c := range []struct {
		now   float64
		span  time.Duration
		field int
		want  float64
	}{
		{3.9, 10 * time.Second, 0, 12},
		{3.9, 1 * time.Second, 0, 7},
		{3.9, 10 * time.Second, 1, 1},
		{3.9, 10 * time.Second, 2, 0},
		{9.5, 10 * time.Second, 0, 12},
		{10.5, 10 * time.Second, 0, 7}, // the slot of second 0 has left
		{13.5, 10 * time.Second, 0, 0}, // and now that of second 3
		{3000, 10 * time.Second, 0, 0},
		{9.5, time.Hour, 0, 12}, // no more than the ring has
	} {
		if got := s.Total(at(c.now), c.span, c.field); got != c.want {
			t.Errorf("Total(%v, %v, %d) = %v, want %v", c.now, c.span, c.field, got, c.want)
		}
	}
}

func TestSlotIsClearedWhenTimeComesRoundToIt(t *testing.T) {
	s := NewSums(epoch, time.Second, 3)
	s.Add(at(0), 0, 100)
	s.Add(at(3), 0, 1) // same slot of the ring, one lap later
	if got := s.Total(at(3), 3*time.Second, 0); got != 1 {
		t.Fatalf("a lap later the total is %v, want 1", got)
	}
}

func TestRateIsRightInTheFirstSeconds(t *testing.T) {
	s := NewSums(epoch, time.Second, 60)
	if got := s.Rate(epoch, time.Minute, 0); got != 0 {
		t.Errorf("rate before any time has passed = %v, want 0", got)
	}
	s.Add(at(1), 0, 30)
	if got := s.Rate(at(3), time.Minute, 0); math.Abs(got-10) > 1e-9 {
		t.Errorf("30 in the first 3 s = %v per second, want 10", got)
	}
	// Over 10 s at 20.5: slots 11..20, of which half a second of the last.
	s.Add(at(20.25), 0, 19)
	if got := s.Rate(at(20.5), 10*time.Second, 0); math.Abs(got-2) > 1e-9 {
		t.Errorf("19 over 9.5 s = %v per second, want 2", got)
	}
}

func TestTimeBeforeTheBaseDoesNotPanic(t *testing.T) {
	s := NewSums(epoch, time.Second, 4)
	s.Add(epoch.Add(-time.Hour), 0, 1)
	if got := s.Total(epoch, time.Second, 0); got != 1 {
		t.Errorf("an earlier time is folded into the first slot: got %v, want 1", got)
	}
	if got := s.Rate(epoch.Add(-time.Hour), time.Second, 0); got != 0 {
		t.Errorf("rate before the base = %v, want 0", got)
	}
}

func TestQuantilesAreWithinFivePercent(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	var all []time.Duration
	d := NewDurations(epoch, 5*time.Second, 12)
	for range 5000 {
		v := time.Duration(math.Exp(rng.NormFloat64()) * float64(300*time.Millisecond))
		all = append(all, v)
		d.Add(at(rng.Float64()*59), v)
	}
	slices.Sort(all)
	h := d.Over(at(59), time.Minute)
	if h.Count() != 5000 {
		t.Fatalf("%d durations in the window, want 5000", h.Count())
	}
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99} {
		got, ok := h.Quantile(q)
		want := all[int(math.Ceil(q*5000))-1]
		if ratio := float64(got) / float64(want); !ok || ratio < 0.95 || ratio > 1.06 {
			t.Errorf("q%v = %v, exact %v", q, got, want)
		}
	}
}

func TestQuantileEdges(t *testing.T) {
	var h Histogram
	if _, ok := h.Quantile(0.5); ok {
		t.Error("an empty histogram has a quantile")
	}
	h.Add(0)
	h.Add(10 * time.Hour)
	low, _ := h.Quantile(0)
	high, _ := h.Quantile(1)
	if low != time.Millisecond || high < 20*time.Minute {
		t.Errorf("outliers at %v and %v, want the first and the last bucket", low, high)
	}
	for i := 1; i < bucketCount-1; i++ {
		if got := bucket(middle(i)); got != i {
			t.Fatalf("the middle of bucket %d falls into bucket %d", i, got)
		}
	}
}

func TestMergedQuantileIsNotTheAverage(t *testing.T) {
	var fast, slow, all Histogram
	for range 99 {
		fast.Add(10 * time.Millisecond)
	}
	slow.Add(10 * time.Second)
	all.Merge(&fast)
	all.Merge(&slow)
	if got, _ := all.Quantile(0.5); got > 12*time.Millisecond {
		t.Errorf("median of 99 fast and 1 slow = %v", got)
	}
}
