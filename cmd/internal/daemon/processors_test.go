package daemon

import (
	"log/slog"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestProcessors(t *testing.T) {
	for _, c := range []struct {
		own       string
		available int
		want      int
	}{
		{"", 1, 1}, {"", 2, 2}, {"", 8, 2}, {"", 47, 2}, {"", 48, 3}, {"", 64, 4}, {"", 192, 12},
		{"64", 64, 64}, {"1", 1, 1},
	} {
		if got := processors(c.own, c.available); got != c.want {
			t.Errorf("GOMAXPROCS=%q, %d available: %d, want %d", c.own, c.available, got, c.want)
		}
	}
}

// On a large machine a daemon takes few processors, and leaves the process as
// it was.
func TestFewProcessorsAreUsedForATime(t *testing.T) {
	d := &Daemon{log: slog.New(slog.DiscardHandler)}
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(64)
	defer runtime.GOMAXPROCS(before)
	restore := d.useFewProcessors()
	if got := runtime.GOMAXPROCS(0); got != 4 {
		t.Errorf("%d processors of 64", got)
	}
	restore()
	if got := runtime.GOMAXPROCS(0); got != 64 {
		t.Errorf("%d processors afterwards, 64 before", got)
	}
}

// The collector's pace is a warden's own only while it runs, and never against the
// user's word.
func TestCollectLess(t *testing.T) {
	now := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	before := now()
	restore := collectLess("")
	if got := now(); got != garbagePercent {
		t.Errorf("%d %%, want %d", got, garbagePercent)
	}
	restore()
	defer collectLess("50")()
	if got := now(); got != before {
		t.Errorf("%d %%, want %d as before", got, before)
	}
}
