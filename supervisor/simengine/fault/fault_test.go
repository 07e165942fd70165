package fault

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/simengine/prompt"
)

func TestApply(t *testing.T) {
	tests := []struct {
		key, value string
		want       settings
		err        string
	}{
		{"stall", "engine", settings{stall: "engine"}, ""},
		{"stall", "half", settings{}, "must be one of engine, all, health"},
		{"health-delay", "3s", settings{healthDelay: 3 * time.Second}, ""},
		{"health-delay", "-3s", settings{}, "must not be negative"},
		{"slow", "2.5", settings{slow: 2.5}, ""},
		{"slow", "0", settings{}, "must be above 0"},
		{"slow", "NaN", settings{}, "must be above 0"},
		{"error", "503:0.25,429", settings{errors: []errorShare{{503, 0.25}, {429, 1}}}, ""},
		{"error", "200:0.5", settings{}, "no error status"},
		{"error", "503:2", settings{}, "outside 0 to 1"},
		{"cut", "reset:3", settings{cut: prompt.Cut{Kind: prompt.Reset, After: 3}}, ""},
		{"cut", "burn:3", settings{}, "must be one of"},
		{"cut", "reset", settings{}, "no number of events"},
		{"exit", "1:5s", settings{process: Process{Exit: true, ExitCode: 1, ExitAfter: 5 * time.Second}}, ""},
		{"exit", "0", settings{process: Process{Exit: true}}, ""},
		{"exit", "300", settings{}, "outside 0 to 255"},
		{"engine-death", "2s", settings{process: Process{EngineDeath: true, DeathAfter: 2 * time.Second}}, ""},
		{"crash", "10m", settings{process: Process{CrashMean: 10 * time.Minute}}, ""},
		{"ignore-term", "true", settings{process: Process{IgnoreTerm: true}}, ""},
		{"ignore-term", "perhaps", settings{}, "invalid syntax"},
		{"hold", "20s", settings{process: Process{Hold: 20 * time.Second}}, ""},
		{"log-flood", "100", settings{process: Process{LogFlood: 100}}, ""},
		{"log-flood", "-1", settings{}, "must not be negative"},
		{"fire", "yes", settings{}, "unknown fault"},
		{"stall", "none", settings{}, ""},
		{"stall", "", settings{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			f := New(1)
			err := f.Apply(map[string]string{tt.key: tt.value})
			if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			got, _ := f.current()
			opts := cmp.AllowUnexported(settings{}, errorShare{})
			if diff := cmp.Diff(tt.want, got, opts); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestApplyIsAllOrNothing(t *testing.T) {
	f := New(1)
	if err := f.Apply(map[string]string{"slow": "2"}); err != nil {
		t.Fatal(err)
	}
	if err := f.Apply(map[string]string{"slow": "3", "stall": "half"}); err == nil {
		t.Fatal("accepted")
	}
	if diff := cmp.Diff(map[string]string{"slow": "2"}, f.Values()); diff != "" {
		t.Error(diff)
	}
	if err := f.Apply(map[string]string{"slow": "none"}); err != nil {
		t.Fatal(err)
	}
	if len(f.Values()) != 0 || f.Slower(time.Second) != time.Second {
		t.Errorf("still on: %v", f.Values())
	}
}

func TestChangesWakeTheWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(1)
		apply := func(stall string) {
			if err := f.Apply(map[string]string{"stall": stall}); err != nil {
				t.Fatal(err)
			}
		}
		apply("all")
		through := make(chan bool)
		go func() { through <- f.EngineMay(t.Context()) }()
		synctest.Wait()
		apply("engine") // another stall: it still waits
		synctest.Wait()
		select {
		case <-through:
			t.Fatal("a stalled engine moved")
		default:
		}
		if !f.Admit(t.Context()) {
			t.Error("requests must be let in while only the engine stalls")
		}
		apply("none")
		if !<-through {
			t.Error("the engine was not let go")
		}
		apply("all")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { through <- f.Admit(ctx) }()
		synctest.Wait()
		cancel()
		if <-through {
			t.Error("a client that left was let in")
		}
	})
}

func TestScriptsGoBeforeTheFault(t *testing.T) {
	f := New(1)
	if err := f.Apply(map[string]string{"cut": "close:9"}); err != nil {
		t.Fatal(err)
	}
	own := prompt.Cut{Kind: prompt.Reset, After: 1}
	if got := f.Cut(own); got != own {
		t.Errorf("got %+v", got)
	}
	if got := f.Cut(prompt.Cut{}); got != (prompt.Cut{Kind: prompt.Close, After: 9}) {
		t.Errorf("got %+v", got)
	}
}

func FuzzApply(f *testing.F) {
	f.Add("exit", "1:5s")
	f.Add("error", "503:0.2,429:0.1")
	f.Add("cut", "reset:3")
	f.Fuzz(func(t *testing.T, key, value string) {
		s := New(1)
		if err := s.Apply(map[string]string{key: value}); err == nil && value != "" && value != "none" && s.Values()[key] != value {
			t.Fatalf("%s=%s was accepted and lost: %v", key, value, s.Values())
		}
	})
}
