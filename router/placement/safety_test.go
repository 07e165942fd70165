package placement

import (
	"math"
	"testing"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

func TestSafetyHandsOutLessAfterLosses(t *testing.T) {
	r := admissionRig(t, 1, 3)
	r.turn(big(1))
	turns := func(n, found int) {
		for range n {
			d := r.place(big(1))
			r.advance(time.Second)
			o := done()
			o.CachedTokens = found
			r.finish(d.TurnID, o)
		}
	}
	turns(12, 1000)
	if got := r.replica("r0").Share; got >= 0.95 || got < ledger.SafetyFloor {
		t.Errorf("share %.2f although nine tenths of the history were lost", got)
	}
	turns(1000, 1000)
	if got := r.replica("r0").Share; got < ledger.SafetyFloor-0.001 || got > ledger.SafetyFloor+0.001 {
		t.Errorf("share %.3f, want the floor %.2f", got, ledger.SafetyFloor)
	}
	turns(100, 9_500)
	if got := r.replica("r0").Share; got > ledger.SafetyFloor+0.001 {
		t.Errorf("share %.3f: it grew although nobody waits", got)
	}
	for range 20 { // somebody always waits, but not so long that others give way
		id := r.arrive(Turn{Key: key(50), PromptTokens: 29_000, Root: 1})
		turns(50, 9_500)
		r.cancel(id)
	}
	if got := r.replica("r0").Share; got < ledger.SafetyCeiling-0.001 {
		t.Errorf("share %.3f after a long time without losses", got)
	}
}

// A conversation that was likely gone has lost its cache because others were given
// its room: no sign that the cache is smaller than it is said to be.
func TestLossesOfThoseLikelyGoneAreIntended(t *testing.T) {
	r := admissionRig(t, 1, 3)
	r.turn(big(1))
	for i := range 40 {
		r.advance(time.Duration(20+i*37%100) * time.Second) // many times what it takes to compute it again
		d := r.place(big(1))
		o := done()
		o.CachedTokens = 1000
		r.finish(d.TurnID, o)
	}
	if got := r.replica("r0").Share; got != 1 {
		t.Errorf("share %.2f: what is lost in pauses counts as a fault of the cache", got)
	}
}

func TestOvercommitHandsOutMore(t *testing.T) {
	room := func(overcommit float64) (placed int, share float64) {
		r := newRig(t, Config{Policy: PolicyAdmission, Admission: AdmissionConfig{Overcommit: overcommit}}, cacheFleet(1, 3)...)
		for i := range 8 {
			if id := r.arrive(big(i)); !r.waiting[id] {
				placed++
			}
		}
		return placed, r.replica("r0").Share
	}
	for _, c := range []struct {
		overcommit, share float64
		placed            int
	}{{0, 1, 3}, {0.34, 1.34, 4}, {-0.34, 0.66, 2}, {9, 1 + MostOvercommit, 4}} {
		if placed, share := room(c.overcommit); placed != c.placed || math.Abs(share-c.share) > 1e-9 {
			t.Errorf("overcommit %v: %d placed with share %.2f, want %d with %.2f", c.overcommit, placed, share, c.placed, c.share)
		}
	}

	low := ledger.Safety{Overcommit: LeastOvercommit}
	now := time.Unix(1_000_000, 0)
	for range 100 { // all of the history is lost, window after window
		for range 10 {
			low.Observe(1000, 0)
		}
		now = now.Add(time.Minute)
		low.Close(true, now)
	}
	if got := low.Share(); got != ledger.SafetyFloor {
		t.Errorf("share %.2f of a cache that loses everything, want the floor", got)
	}

	// Live, and kept by a replica's next process.
	r := admissionRig(t, 1, 3)
	r.step(Configure{Config{Policy: PolicyAdmission, Admission: AdmissionConfig{Overcommit: 0.2}}})
	set := cacheFleet(1, 3)
	set[0].Generation++
	r.step(Replicas{set})
	if got := r.replica("r0").Share; got != 1.2 {
		t.Errorf("share %.2f of a new process, want 1.2", got)
	}
}
