package core

import (
	"testing"
	"time"
)

// The step that admits a request takes longer for the frontend's work on it, which
// also goes over what the cache has; the next ones do not.
func TestAdmissionHoldsUpTheStep(t *testing.T) {
	s, err := New(Config{BlockSize: 16, Blocks: 100, Cost: Cost{
		Base: time.Millisecond, Admission: 10 * time.Millisecond, CachedToken: 1000,
	}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(0, 0)
	prompt := make([]Token, 40)
	step := func() time.Duration {
		st := s.Step(now)
		now = now.Add(st.Took)
		return st.Took
	}
	for id, want := range []time.Duration{11 * time.Millisecond, 11*time.Millisecond + 32*time.Microsecond} {
		if err := s.Add(Request{ID: ID(id), Prompt: prompt, Answer: make([]Token, 2)}, now); err != nil {
			t.Fatal(err)
		}
		if first, next := step(), step(); first != want || next != time.Millisecond {
			t.Errorf("request %d: steps of %v and %v, want %v and 1ms", id, first, next, want)
		}
	}
}

func TestScaledCostsScale(t *testing.T) {
	c := Cost{Admission: 4, CachedToken: 4, Frontend: 4, Base: 4, Floor: 4, PerToken: 4, PrefillContext: 4, DecodeContext: 4}
	if got, want := c.Scaled(2), (Cost{Admission: 2, CachedToken: 2, Frontend: 2, Base: 2, Floor: 2, PerToken: 2, PrefillContext: 2, DecodeContext: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
