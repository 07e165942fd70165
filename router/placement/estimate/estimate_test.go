package estimate

import (
	"math"
	"testing"
	"time"
)

func TestSmooth(t *testing.T) {
	if got := Smooth(0, 7); got != 7 {
		t.Errorf("the first sample gives %v, want itself", got)
	}
	if got := Smooth(10, 20); got != 12 {
		t.Errorf("a fifth of the way from 10 to 20 is %v", got)
	}
}

func TestPaceForgets(t *testing.T) {
	now := time.Unix(1000, 0)
	var p Pace
	for range 600 { // ten minutes, two turns a second
		for range 2 {
			p.Count(now)
		}
		now = now.Add(time.Second)
	}
	if got := p.PerSecond(); math.Abs(got-2) > 0.05 {
		t.Errorf("two turns a second are counted as %.2f", got)
	}
	p.Count(now.Add(time.Hour))
	if got := p.PerSecond(); math.Abs(got-1.0/60) > 1e-9 {
		t.Errorf("after an hour's pause %.3f a second, want one in a minute", got)
	}
}

func TestRate(t *testing.T) {
	var r Rate
	if r.TokensPerSecond() != priorRate || r.Measured() != 0 {
		t.Errorf("before any measurement %v, measured %v", r.TokensPerSecond(), r.Measured())
	}
	r.Learn(minRateSample-1, time.Second) // too little work to tell
	r.Learn(6000, 0)                      // no time at all
	if r.Measured() != 0 {
		t.Errorf("learned %v from what says nothing", r.Measured())
	}
	r.Learn(6000, 2*time.Second)
	if r.Measured() != 3000 || r.Took(1500) != 500*time.Millisecond {
		t.Errorf("rate %v, 1,500 tokens take %v", r.Measured(), r.Took(1500))
	}
}
