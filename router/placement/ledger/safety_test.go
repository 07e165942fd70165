package ledger

import (
	"testing"
	"time"
)

// What disturbances cost adds up, also when they come together.
func TestPausesAddUp(t *testing.T) {
	var s Safety
	at := time.Unix(1000, 0)
	if !s.Quiet(at) {
		t.Error("not quiet before anything has happened")
	}
	s.Disturb(at, 10*time.Second)
	s.Disturb(at, 5*time.Second)
	for _, tt := range []struct {
		after time.Duration
		quiet bool
	}{{0, false}, {15*time.Second - 1, false}, {15 * time.Second, true}} {
		if got := s.Quiet(at.Add(tt.after)); got != tt.quiet {
			t.Errorf("quiet %v after %v, want %v", got, tt.after, tt.quiet)
		}
	}
	// A time without disturbances is not saved up.
	later := at.Add(time.Hour)
	s.Disturb(later, 10*time.Second)
	if s.Quiet(later.Add(9 * time.Second)) {
		t.Error("quiet 9 s after a disturbance that asks for 10 s")
	}
}
