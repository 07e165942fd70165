package figures

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/router/dialect"
)

func TestWhatIsNotMeasuredIsComputed(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	r := New(start)
	at := start.Add(10 * time.Second)
	r.Used(at, dialect.Usage{PromptTokens: 100, CachedTokens: 80, OutputTokens: 5}, 7)
	r.Used(at, dialect.Usage{PromptTokens: 50, CachedTokens: -1, OutputTokens: -1}, 7)
	r.Used(at, dialect.Usage{PromptTokens: -1, CachedTokens: -1, OutputTokens: -1}, 50)
	r.Used(at, dialect.Usage{PromptTokens: 10, CachedTokens: 90}, 0) // more cached than there were
	got := r.Tokens(at)
	if got.CachedTotal != 90 || got.ComputedTotal != 120 || got.OutputTotal != 5 {
		t.Errorf("totals: %+v", got)
	}
	if want := 90.0 / 210; got.CachedShareMinute != want || got.CachedShareHour != want {
		t.Errorf("shares: %+v, want %v", got, want)
	}
	if late := r.Tokens(at.Add(2 * time.Minute)); late.CachedShareMinute != -1 || late.CachedShareHour < 0 || late.CachedRate != 0 {
		t.Errorf("two minutes later: %+v", late)
	}
}

func TestRequestsAndFirstTokens(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	r := New(start)
	at := start.Add(20 * time.Second)
	for i := range 10 {
		r.Ended(at, i == 0)
		r.FirstToken(at, time.Second)
	}
	if ended, failed := r.Requests(); ended != 10 || failed != 1 || r.RequestRate(at) < 1 || r.RequestRate(at) > 1.2 {
		t.Errorf("%d ended, %d failed, %v per second", ended, failed, r.RequestRate(at))
	}
	h := r.TTFT(at)
	if q := QuantilesOf(&h); q.Count != 10 || q.P50 < 900*time.Millisecond || q.P99 > 1100*time.Millisecond {
		t.Errorf("TTFT: %+v", q)
	}
	if h := r.TTFT(at.Add(2 * Recently)); h.Count() != 0 {
		t.Error("old times are still counted")
	}
}
