package rates

import (
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func reading(second int, prompt, generated, hits, queries uint64) supervisor.EngineStats {
	return supervisor.EngineStats{At: start.Add(time.Duration(second) * time.Second), PromptTokens: prompt, GenerationTokens: generated, PrefixHits: hits, PrefixQueries: queries}
}

func TestRates(t *testing.T) {
	var w Window
	if _, ok := w.Over(); ok {
		t.Error("rates without readings")
	}
	w.Add(1, reading(0, 0, 0, 0, 0))
	w.Add(1, supervisor.EngineStats{}) // never read
	w.Add(1, reading(10, 1000, 200, 600, 1000))
	r, ok := w.Over()
	if share, _ := r.HitRate(); !ok || r.Prefill != 40 || r.Decode != 20 || share != 0.6 {
		t.Errorf("%+v, %v", r, ok)
	}
	w.Add(1, reading(10, 9999, 9999, 0, 9999)) // the same reading again
	if again, _ := w.Over(); again != r {
		t.Errorf("a reading of the same time changed the rates to %+v", again)
	}
}

func TestOldReadingsLeave(t *testing.T) {
	var w Window
	for s := range 200 {
		w.Add(1, reading(s, uint64(s*s), uint64(s), 0, uint64(s)))
	}
	if got := len(w.readings); got > 61 {
		t.Errorf("%d readings kept", got)
	}
	if r, _ := w.Over(); r.Decode != 1 {
		t.Errorf("%+v", r)
	}
}

func TestRestartBeginsAnew(t *testing.T) {
	for name, generation := range map[string]uint64{"new generation": 2, "counters went back": 1} {
		t.Run(name, func(t *testing.T) {
			var w Window
			w.Add(1, reading(0, 5000, 500, 0, 5000))
			w.Add(1, reading(1, 6000, 600, 0, 6000))
			w.Add(generation, reading(2, 0, 0, 0, 0))
			if _, ok := w.Over(); ok {
				t.Error("a rate across the restart")
			}
			w.Add(generation, reading(3, 10, 5, 20, 40))
			if r, ok := w.Over(); !ok || r.Decode != 5 || r.Prefill != 0 {
				t.Errorf("%+v, %v", r, ok)
			}
		})
	}
}

func TestHostTierRates(t *testing.T) {
	var w Window
	with := func(second int, hits, queries, hostHits, hostQueries uint64) supervisor.EngineStats {
		s := reading(second, queries, 0, hits, queries)
		s.ExternalHits, s.ExternalQueries = hostHits, hostQueries
		return s
	}
	w.Add(1, with(0, 0, 0, 0, 0))
	w.Add(1, with(10, 200, 1000, 0, 0))
	if r, _ := w.Over(); r.HostQueries != 0 {
		t.Errorf("without a tier: %+v", r)
	} else if _, ok := r.HostHitRate(); ok {
		t.Error("a rate of a tier that was never asked")
	}
	w.Add(1, with(20, 400, 2000, 600, 800))
	r, _ := w.Over()
	host, _ := r.HostHitRate()
	if all, _ := r.HitRate(); host != 0.75 || all != 0.5 {
		t.Errorf("host %v, all %v: %+v", host, all, r)
	}
}
