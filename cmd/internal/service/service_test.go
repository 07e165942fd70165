package service

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/service/servicetest"
)

func TestServiceStateTellsOnceWhatChanged(t *testing.T) {
	begin := time.Unix(1000, 0)
	const extend = "EXTEND_TIMEOUT_USEC=60000000"
	steps := []struct {
		after time.Duration
		facts Facts
		want  []string
	}{
		{0, Facts{0, 2, true}, []string{extend, "STATUS=0/2 ready"}},
		{time.Second, Facts{0, 2, true}, nil},
		{extendEvery, Facts{0, 2, true}, []string{extend}},
		{3 * extendEvery, Facts{0, 2, false}, nil}, // no hope: systemd's limit counts
		{4 * extendEvery, Facts{1, 2, true}, []string{"STATUS=1/2 ready", "READY=1"}},
		{5 * extendEvery, Facts{0, 2, true}, []string{"STATUS=0/2 ready"}}, // all restart: ready stays said
		{6 * extendEvery, Facts{2, 2, false}, []string{"STATUS=2/2 ready"}},
	}
	var s told
	for i, step := range steps {
		var got []string
		got, s = s.next(step.facts, begin.Add(step.after))
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

func TestRestartFollows(t *testing.T) {
	tests := []struct {
		result, status string
		want           bool
	}{
		{"", "", false},
		{"success", "0", false},
		{"timeout", "KILL", false},
		{"signal", "KILL", true},
		{"core-dump", "ABRT", true},
		{"watchdog", "ABRT", true},
		{"oom-kill", "KILL", true},
		{"exit-code", "1", true},
		{"exit-code", "5", true},
		{"exit-code", "4", false},
		{"exit-code", "2", false},
	}
	for _, tt := range tests {
		if got := RestartFollows(tt.result, tt.status); got != tt.want {
			t.Errorf("%s %s: %v", tt.result, tt.status, got)
		}
	}
}

// A data path that does not answer starves the watchdog; nothing else does.
func TestWatchdogIsFedByTheDataPath(t *testing.T) {
	n := servicetest.Listen(t, t.TempDir())
	t.Setenv("NOTIFY_SOCKET", n.Path)
	t.Setenv("WATCHDOG_USEC", "150000")
	t.Setenv("WATCHDOG_PID", "")
	var broken atomic.Bool
	broken.Store(true)
	probes := make(chan struct{}, 100)
	probe := func(context.Context) error {
		probes <- struct{}{}
		if broken.Load() {
			return errors.New("no answer")
		}
		return nil
	}
	var ready atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		New(slog.New(slog.DiscardHandler)).Run(ctx, func() Facts {
			return Facts{Ready: int(ready.Load()), Total: 1}
		}, probe)
	})
	for range 3 {
		<-probes
	}
	ready.Store(1)
	n.Expect("READY=1")
	if slices.Contains(n.Seen, "WATCHDOG=1") {
		t.Errorf("fed while the API failed: %q", n.Seen)
	}
	broken.Store(false)
	n.Expect("WATCHDOG=1")
	cancel()
	running.Wait()
}
