package gpuwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

// faultBench is a faults whose effects are kept.
type faultBench struct {
	faults
	aside map[string]supervisor.Aside
	told  []string
}

func newFaultBench() *faultBench {
	b := &faultBench{aside: map[string]supervisor.Aside{}}
	b.faults = faults{
		devices: []gpu.Device{{Index: 0, UUID: "GPU-a", Name: "NVIDIA L4"}, {Index: 1, UUID: "GPU-b", Name: "NVIDIA L4"}},
		setAside: func(uuid string, a supervisor.Aside) bool {
			_, known := b.aside[uuid]
			b.aside[uuid] = a
			return !known
		},
		publish: func(e events.Event) { b.told = append(b.told, e.Text) },
		log:     slog.New(slog.DiscardHandler),
	}
	return b
}

func TestXIDsAreCountedAndFatalOnesSetTheirGPUAside(t *testing.T) {
	b := newFaultBench()
	at := time.Unix(1000, 0)
	for range 300 { // one bad program, one fault per channel
		b.onXID(gpu.XID{UUID: "GPU-a", Code: 13, At: at})
		at = at.Add(time.Millisecond)
	}
	if len(b.aside) != 0 || len(b.told) != 1 || !strings.Contains(b.told[0], "GPU 0 (L4): XID 13 (graphics engine exception), the fault of a program") {
		t.Errorf("%v %q", b.aside, b.told)
	}
	b.onXID(gpu.XID{UUID: "GPU-a", Code: 13, At: at.Add(2 * time.Minute)})
	if len(b.told) != 2 {
		t.Errorf("not told again after a while: %q", b.told)
	}
	b.onXID(gpu.XID{UUID: "GPU-a", Code: 13, At: at.Add(-24 * time.Hour)})
	if len(b.told) != 3 {
		t.Errorf("not told for a day, because the clock was set back: %q", b.told)
	}
	b.onXID(gpu.XID{UUID: "GPU-b", Code: 79, At: at})
	b.onXID(gpu.XID{UUID: "GPU-b", Code: 79, At: at})
	if a := b.aside["GPU-b"]; len(b.aside) != 1 || !a.Gone || a.Cause != "XID 79 (GPU fell off the bus)" || a.Fix == "" || !a.At.Equal(at) {
		t.Errorf("%+v", b.aside)
	}
	if len(b.told) != 4 || !strings.Contains(b.told[3], "GPU 1 (L4) is set aside: XID 79 (GPU fell off the bus): reboot") {
		t.Errorf("%q", b.told)
	}
	if diff := cmp.Diff(map[int]uint64{13: 302}, b.counted("GPU-a")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int]uint64{79: 2}, b.counted("GPU-b")); diff != "" {
		t.Error(diff)
	}
}

func TestLostGPUsAreSetAside(t *testing.T) {
	b := newFaultBench()
	b.onSamples(gpu.WithMissing([]gpu.Sample{{UUID: "GPU-a"}}, b.devices, time.Unix(1, 0)))
	if a, aside := b.aside["GPU-b"]; len(b.aside) != 1 || !aside || !a.Gone {
		t.Errorf("%+v", b.aside)
	}
	b.devices[0].Health.RemapFailed = true
	b.onDevices(time.Unix(1, 0))
	if a, aside := b.aside["GPU-a"]; !aside || a.Gone || !strings.Contains(a.Fix, "GPU-a") {
		t.Errorf("%+v", b.aside)
	}
}

// mismatch is what a probe says between an upgrade and the reboot.
var mismatch = &gpu.NVMLError{Code: gpu.CodeDriverMismatch, What: "different versions", Fix: "reboot"}

func TestHoldBeginsAndEndsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refuses atomic.Bool
		var probes atomic.Int64
		var told []string
		s := newStartHold(func(context.Context) error {
			probes.Add(1)
			if refuses.Load() {
				return mismatch
			}
			return nil
		}, func(began bool, h control.Hold) { told = append(told, fmt.Sprint(began, " ", h.Cause)) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.watch(ctx)
		}()
		defer func() {
			cancel()
			<-done
		}()

		<-time.After(5*time.Minute + time.Second)
		synctest.Wait()
		if probes.Load() != 10 || s.latest() != nil {
			t.Errorf("%d probes in 5 minutes, %v", probes.Load(), s.latest())
		}
		refuses.Store(true)
		begun := time.Now()
		<-time.After(holdEvery + time.Second)
		h := s.latest()
		if h == nil || h.Cause != "different versions (NVML code 18)" || h.Fix != "reboot" {
			t.Fatalf("%+v", h)
		}
		since := h.Since
		<-time.After(time.Hour)
		if h := s.latest(); !h.Since.Equal(since) || since.Sub(begun) > holdEvery {
			t.Errorf("held since %s, want %s", h.Since, since)
		}
		refuses.Store(false)
		<-time.After(heldEvery + time.Second)
		if s.latest() != nil {
			t.Error("the hold does not end")
		}
		synctest.Wait()
		if diff := cmp.Diff([]string{"true different versions (NVML code 18)", "false different versions (NVML code 18)"}, told); diff != "" {
			t.Error(diff)
		}
		refuses.Store(true)
		s.hurry()
		synctest.Wait()
		if s.latest() == nil {
			t.Error("a hurry waits")
		}
	})
}

func TestReplicasShareOneProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		s := newStartHold(func(context.Context) error {
			probes++
			<-time.After(200 * time.Millisecond)
			return mismatch
		}, func(bool, control.Hold) {})
		answers := make(chan string, 8)
		for range cap(answers) {
			go func() { answers <- s.why(t.Context(), nil) }()
		}
		for range cap(answers) {
			if got := <-answers; got != "no engine can start: different versions (NVML code 18); reboot" {
				t.Errorf("%q", got)
			}
		}
		if probes != 1 {
			t.Errorf("%d probes for 8 replicas that start together", probes)
		}
	})
}

// One probe without an answer does not say that engines can start again; much
// silence leaves nothing to go by.
func TestSilenceEndsAHoldLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var answer error
		s := newStartHold(func(context.Context) error { return answer }, func(bool, control.Hold) {})
		step := func(after time.Duration, err error, held bool) {
			t.Helper()
			<-time.After(after)
			answer = err
			if why := s.why(t.Context(), nil); (why != "") != held {
				t.Errorf("after %v: %q, want held %t", err, why, held)
			}
		}
		refusal, silence := &gpu.NVMLError{Code: gpu.CodeDriverMismatch, What: "different versions"}, &gpu.NVMLError{Code: gpu.CodeNoAnswer, What: "silent"}
		step(0, refusal, true)
		step(heldEvery, silence, true)
		step(heldEvery, errors.New("too many open files"), true)
		step(heldEvery, refusal, true)
		step(silentHold-time.Second, silence, true)
		step(heldEvery, silence, false)
		step(heldEvery, refusal, true)
		step(heldEvery, nil, false)
	})
}

// A driver that does not answer is not known to refuse starts, and an asker
// who gives up learns nothing new.
func TestSilentDriverHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStartHold(func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Second):
				return &gpu.NVMLError{Code: gpu.CodeNoAnswer, What: "silent"}
			}
		}, func(bool, control.Hold) { t.Error("told of a hold") })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if why := s.why(ctx, nil); why != "" || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("%q %v", why, ctx.Err())
		}
		if why := s.why(t.Context(), nil); why != "" {
			t.Errorf("%q", why)
		}
	})
}
