package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/gpu/gputest"
	"github.com/lm-warden/warden/supervisor/control"
)

// gpuBox is a machine with GPUs: a fake NVIDIA library, and a `vllm` that is the
// simulated engine.
type gpuBox struct {
	home  string
	state *gputest.State
	gpus  []string // lines of the state
	env   []string
	flags []string
}

func newGPUBox(t *testing.T, n int, library string) *gpuBox {
	t.Helper()
	b := &gpuBox{home: newHome(t), gpus: gputest.A4000s(n)}
	b.state = gputest.NewState(t, b.gpus...)
	engine := filepath.Join(b.home, "vllm")
	writeFile(t, engine, fmt.Sprintf("#!/bin/sh\nexec %s __simengine \"$@\"\n", binary))
	if err := os.Chmod(engine, 0o700); err != nil {
		t.Fatal(err)
	}
	b.env = []string{"WARDEN_NVML_LIBRARY=" + library, b.state.Env()}
	b.flags = []string{"--model", "qwen3-4b", "--vllm", engine, "--listen", "127.0.0.1:0", "--dp", fmt.Sprint(n), "--", "--sim-load", "200ms"}
	return b
}

// set adds lines to the state.
func (b *gpuBox) set(lines ...string) { b.state.Set(slices.Concat(b.gpus, lines)...) }

// memoryFails is what makes the memory of GPUs unreadable: both versions of the
// call fail.
func memoryFails(which string, code int) []string {
	return []string{fmt.Sprintf("code nvmlDeviceGetMemoryInfo%s %d", which, code), fmt.Sprintf("code nvmlDeviceGetMemoryInfo_v2%s %d", which, code)}
}

func (b *gpuBox) launch(t *testing.T) *running {
	t.Helper()
	w := launchWith(t, b.home, b.env, b.flags...)
	w.waitFor(allReady)
	return w
}

// Figure 3: a start waits until the GPU's memory is back, and not much longer.
func TestFigureRestartWaitsForMemory(t *testing.T) {
	t.Parallel() // it waits most of its time
	box := newGPUBox(t, 1, gputest.Build(t))
	w := box.launch(t)
	log := w.watchEvents()
	before, _ := remote.FindReplica(w.waitFor(allReady), "r0")
	const held = 2 * time.Second
	box.set(fmt.Sprintf("proc 0 %d 14000", os.Getpid())) // a driver that is slow to give memory back
	killed := kill(t, before.PID)
	pause(held)
	box.set()
	freed := time.Now()
	w.readyAgain(before)
	e, ok := log.find(killed, enters("r0", control.StateStarting))
	if !ok {
		t.Fatal("no event tells of the new start")
	}
	t.Logf("started %s after the memory was back", e.At.Sub(freed))
	// Three equal readings, one second apart, and 1.5 s.
	if took := e.At.Sub(freed); took < 0 || took > 3*time.Second+1500*time.Millisecond {
		t.Errorf("started %s after the memory was back", took)
	}
}

// Figure 18: whatever the driver does, requests do not notice, engines are left
// alone, and the status says what is wrong and what to do. (A lost GPU is
// TestFigureBrokenGPU's.)
func TestFigureNVML(t *testing.T) {
	t.Parallel() // it waits most of its time
	box := newGPUBox(t, 2, gputest.Build(t))
	w := box.launch(t)
	c := w.newClient()
	before := identities(w.waitFor(allReady))
	w.waitFor(func(s control.Status) bool { return len(s.GPUs) == 2 && s.GPUs[0].MemoryUsedBytes != nil })
	quiet := quantile(steadyWaits(t, c, 3*time.Second, "quiet"), 0.99)

	ctx, stop := context.WithCancel(t.Context())
	arriving := c.trickle(ctx, 20*time.Millisecond, "nvml")
	one := func(s control.Status) string { // the GPU of NVML's index 0 is the last on the bus
		return s.GPUs[1].UnavailableReason
	}
	all := func(s control.Status) string { return s.GPUNote }
	faults := []struct {
		lines []string
		fresh bool // the driver is opened anew
		where func(control.Status) string
		want  []string
	}{
		{memoryFails("@0", 4), false, one, []string{"no permission", "NVML code 4"}},
		{memoryFails("", 999), false, all, []string{"unknown error", "NVML code 999", "rmmod nvidia_uvm"}},
		{[]string{"code nvmlInit_v2 18"}, true, all, []string{"have different versions", "NVML code 18", "reboot"}},
		{[]string{"code nvmlInit_v2 9"}, true, all, []string{"driver is not loaded", "NVML code 9", "modprobe nvidia"}},
		{[]string{"code nvmlInit_v2 4"}, true, all, []string{"no permission", "NVML code 4", "ls -l /dev/nvidia"}},
		{[]string{"code nvmlDeviceGetCount_v2 13"}, true, all, []string{"lacks a function", "NVML code 13", "upgrade the NVIDIA driver"}},
		{[]string{"block nvmlDeviceGetMemoryInfo_v2"}, false, all, []string{"does not answer", "dmesg"}},
	}
	for _, f := range faults {
		box.set(f.lines...)
		if f.fresh {
			kill(t, relative(t, w.home, "__nvml"))
		}
		began := time.Now()
		s := w.waitFor(func(s control.Status) bool { return containsAll(f.where(s), f.want) })
		t.Logf("%s after %s: %s", f.lines[0], time.Since(began).Round(time.Millisecond), f.where(s))
		box.set()
		w.waitFor(func(s control.Status) bool {
			return s.GPUNote == "" && s.GPUs[1].UnavailableReason == "" && *s.GPUs[1].SampleAgeSeconds < 3
		})
	}
	stop()
	var waits []time.Duration
	for _, one := range arriving.wait() {
		if !one.complete() {
			t.Errorf("a request failed: %s", one)
		}
		waits = append(waits, one.wait())
	}
	// Other tests run beside this one, now more of them and now less.
	quiet = max(quiet, quantile(steadyWaits(t, c, 3*time.Second, "quiet again"), 0.99))
	t.Logf("first byte p99 %s before and after, %s during %d NVML faults (%d requests)", quiet, quantile(waits, 0.99), len(faults), len(waits))
	if p99 := quantile(waits, 0.99); p99 > 2*quiet+50*time.Millisecond {
		t.Errorf("first byte p99 %s during NVML faults, %s before and after", p99, quiet)
	}
	if diff := cmp.Diff(before, identities(w.waitFor(allReady))); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
}

func containsAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// Figure 18, the rest: a library that lacks what every driver has is refused in
// words, one that lacks a newer function only leaves its figure empty.
func TestFigureNVMLWithoutSymbols(t *testing.T) {
	object := gputest.Compile(t)
	box := newGPUBox(t, 1, object.Without(t, "nvmlDeviceGetUtilizationRates", "nvmlDeviceGetMemoryInfo_v2"))
	w := box.launch(t)
	s := w.waitFor(func(s control.Status) bool { return s.GPUs[0].MemoryUsedBytes != nil })
	if s.GPUs[0].Utilization != nil || s.GPUNote != "" || s.GPUs[0].UnavailableReason != "" {
		t.Errorf("without nvmlDeviceGetUtilizationRates: %+v %q", s.GPUs[0], s.GPUNote)
	}
	if a := w.chat("x", "hello", false, 2); a.code != 200 {
		t.Errorf("answer %d %v", a.code, a.err)
	}

	for _, tt := range []struct {
		library, line, want string
	}{
		{object.Without(t, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"), "", "lacks a function"},
		{filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), "", "libnvidia-ml.so.1 was not found"},
		{object.Without(t), "code nvmlInit_v2 18", "have different versions"},
		{object.Without(t), "code nvmlInit_v2 9", "driver is not loaded"},
	} {
		box := newGPUBox(t, 1, tt.library)
		box.set(tt.line)
		cmd := upCommand(box.flags...)
		cmd.Env, cmd.Dir = append(environment(box.home), box.env...), box.home
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exit.Preflight || !strings.Contains(string(out), tt.want) {
			t.Errorf("%s: %v\n%s", tt.want, err, out)
		}
	}
}
