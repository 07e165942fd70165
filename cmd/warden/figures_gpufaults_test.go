package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/gpu/gputest"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

// unharmed proves that every request of a steady trickle is answered while
// something happens.
func unharmed(t *testing.T, c *client, name string, happens func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	arriving := c.trickle(ctx, 100*time.Millisecond, name)
	happens()
	stop()
	all := arriving.wait()
	for _, one := range all {
		if !one.complete() {
			t.Errorf("%s: a request failed: %s", name, one)
		}
	}
	t.Logf("%s: %d requests, all answered", name, len(all))
}

// Figure 18, the mismatch: a driver that was upgraded under running engines
// harms none of them. What dies meanwhile waits, and comes back by itself.
func TestFigureDriverMismatch(t *testing.T) {
	t.Parallel() // it waits most of its time
	box := newGPUBox(t, 2, gputest.Build(t))
	w := box.launch(t)
	c := w.newClient()
	log := w.watchEvents()
	before := w.waitFor(allReady)
	r1, _ := remote.FindReplica(before, "r1")

	unharmed(t, c, "mismatch", func() {
		box.set("code nvmlInit_v2 18")
		upgraded := time.Now()
		s := w.waitFor(func(s control.Status) bool { return s.Hold != nil })
		t.Logf("noticed after %s, with every engine healthy: %s", time.Since(upgraded).Round(time.Second), s.Hold.Cause)
		if !strings.Contains(s.Hold.Cause, "have different versions") || !strings.Contains(s.Hold.Fix, "reboot") {
			t.Errorf("%+v", s.Hold)
		}
	})
	if diff := cmp.Diff(identities(before), identities(w.waitFor(allReady))); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
	if out, code := w.runCommand("restart", "r0"); code == 0 || !strings.Contains(out, "no engine can start") || !strings.Contains(out, "reboot") {
		t.Errorf("a restart that could not come back: %d %s", code, out)
	}
	if out, _ := w.runCommand("status"); !strings.Contains(out, "no engine can start: ") || !strings.Contains(out, "reboot") {
		t.Errorf("status has no banner:\n%s", out)
	}
	if got := metric(t, w, "warden_starts_held"); got != "1" {
		t.Errorf("warden_starts_held %s", got)
	}

	killed := kill(t, r1.PID)
	s := w.waitFor(func(s control.Status) bool {
		r, _ := remote.FindReplica(s, "r1")
		return r.State == control.StateWaitingGPU && strings.Contains(r.Note, "have different versions")
	})
	t.Logf("r1 waits: %s", s.Replicas[1].Note)
	unharmed(t, c, "held", func() { pause(12 * time.Second) }) // 4 tries of the back-off, and twice the pace of the probes
	if _, tried := log.find(killed, enters("r1", control.StateStarting)); tried {
		t.Error("a start was tried under the mismatch")
	}
	if r, _ := remote.FindReplica(w.waitFor(func(control.Status) bool { return true }), "r0"); r.PID != before.Replicas[0].PID {
		t.Error("the healthy engine was replaced")
	}
	box.set()
	rebooted := time.Now()
	w.readyAgain(r1)
	if e, ok := log.find(rebooted, enters("r1", control.StateStarting)); !ok || e.At.Sub(rebooted) > 12*time.Second {
		t.Errorf("started %s after the mismatch was gone", e.At.Sub(rebooted))
	}
	w.waitFor(func(s control.Status) bool { return s.Hold == nil })
	if got := metric(t, w, "warden_starts_held"); got != "0" {
		t.Errorf("warden_starts_held %s", got)
	}
}

// A fault of one GPU costs its replica, and nothing else.
func TestFigureBrokenGPU(t *testing.T) {
	t.Parallel() // it waits most of its time
	box := newGPUBox(t, 2, gputest.Build(t))
	w := box.launch(t)
	c := w.newClient()
	before := w.waitFor(allReady)
	parked := func(s control.Status) bool {
		r, _ := remote.FindReplica(s, "r1")
		return r.State == control.StateParked && s.GPUs[1].Aside != nil
	}

	// NVML's index 0 is the last on the bus: GPU 1.
	unharmed(t, c, "a program's XID", func() {
		box.set("xid 1 0 13")
		w.waitFor(func(s control.Status) bool { return s.GPUs[1].XIDs["13"] == 1 })
		pause(2 * time.Second)
	})
	if diff := cmp.Diff(identities(before), identities(w.waitFor(allReady))); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
	box.set("xid 1 0 13", "xid 2 0 119") // the GPU needs a reset: what it holds may finish
	s := w.waitFor(parked)
	if a := s.GPUs[1].Aside; !strings.Contains(a.Cause, "XID 119") || !strings.Contains(a.Fix, "--gpu-reset -i "+gputest.UUID(1)) {
		t.Errorf("%+v", a)
	}
	if r := s.Replicas[1]; r.Diagnosis == nil || !strings.Contains(r.Diagnosis.Fix, "warden retry r1") {
		t.Errorf("%+v", r.Diagnosis)
	}
	if s.GPUs[0].Aside != nil || s.Replicas[0].State != control.StateReady {
		t.Errorf("the other GPU pays, too: %+v %s", s.GPUs[0], s.Replicas[0].State)
	}
	unharmed(t, c, "one GPU aside", func() { pause(time.Second) })
	if got := metric(t, w, "warden_gpu_set_aside{gpu=\"1\""); got != "1" {
		t.Errorf("warden_gpu_set_aside %s", got)
	}
	if got := metric(t, w, "warden_gpu_xids_total{gpu=\"1\",replica=\"r1\",uuid=\""+gputest.UUID(1)+"\",xid=\"119\""); got != "1" {
		t.Errorf("warden_gpu_xids_total %s", got)
	}

	if out, code := w.runCommand("retry", "r1"); code != exit.OK {
		t.Fatalf("retry: %d %s", code, out)
	}
	w.waitFor(func(s control.Status) bool { return allReady(s) && s.GPUs[1].Aside == nil })

	log := w.watchEvents()
	cause := time.Now()
	box.set("xid 1 0 13", "xid 2 0 119", "xid 3 0 79") // gone: nothing to wait for
	w.waitFor(parked)
	if e, ok := log.find(cause, func(e events.Event) bool {
		return e.Kind == events.KindGPU && strings.Contains(e.Text, "is set aside: XID 79")
	}); !ok || e.Fields["uuid"] != gputest.UUID(1) {
		t.Errorf("no event, or the wrong one: %+v", e)
	}

	// Another warden in the same boot knows.
	if out, code := w.runCommand("down", "--now"); code != exit.OK {
		t.Fatalf("down: %d %s", code, out)
	}
	<-w.done
	box.set()
	w = launchWith(t, box.home, box.env, box.flags...)
	s = w.waitFor(func(s control.Status) bool { return parked(s) && s.Replicas[0].State == control.StateReady })
	if !strings.Contains(s.Replicas[1].Note, "XID 79") {
		t.Errorf("note %q", s.Replicas[1].Note)
	}
	if out, code := w.runCommand("retry", "r1"); code != exit.OK {
		t.Fatalf("retry: %d %s", code, out)
	}
	w.waitFor(allReady)
	box.set(memoryFails("@0", 15)...) // the driver lost it, without an XID
	s = w.waitFor(parked)
	if !strings.Contains(s.GPUs[1].UnavailableReason, "fell off the bus") || !strings.Contains(s.GPUs[1].UnavailableFix, "reboot") {
		t.Errorf("%+v", s.GPUs[1])
	}
	// Retrying a GPU that is still lost ends where it began.
	if out, code := w.runCommand("retry", "r1"); code != exit.OK {
		t.Fatalf("retry: %d %s", code, out)
	}
	pause(2500 * time.Millisecond)
	w.waitFor(parked)
}

// A warden that is killed and started again under a broken driver finds its
// engines: none is ended for what the driver says, and none starts on a GPU that
// is not its own.
func TestFigureWardenRestartsUnderABrokenDriver(t *testing.T) {
	t.Parallel() // it waits most of its time
	box := newGPUBox(t, 2, gputest.Build(t))
	w := box.launch(t)
	before := w.waitFor(allReady)
	again := func(fault ...string) {
		t.Helper()
		if err := w.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		<-w.done
		box.set(fault...)
		w = launchWith(t, box.home, box.env, box.flags...)
	}

	again("code nvmlInit_v2 18")
	s := w.waitFor(func(s control.Status) bool { return allReady(s) && s.Hold != nil })
	if diff := cmp.Diff(identities(before), identities(s)); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
	box.set()
	w.waitFor(func(s control.Status) bool { return s.Hold == nil && s.GPUNote == "" })

	again("code nvmlDeviceGetHandleByIndex_v2@1 15") // NVML's index 1 is the first on the bus: GPU 0
	s = w.waitFor(func(s control.Status) bool {
		r0, _ := remote.FindReplica(s, "r0")
		r1, _ := remote.FindReplica(s, "r1")
		return r0.State == control.StateParked && r1.State == control.StateReady
	})
	if s.GPUs[0].UUID != gputest.UUID(0) || s.GPUs[0].Aside == nil || s.GPUs[1].Aside != nil {
		t.Errorf("%+v", s.GPUs)
	}
	r1, _ := remote.FindReplica(s, "r1")
	if was, _ := remote.FindReplica(before, "r1"); r1.PID != was.PID {
		t.Error("the engine on the healthy GPU was replaced")
	}
	if pinned := environmentOf(t, r1.PID)["CUDA_VISIBLE_DEVICES"]; pinned != "1" {
		t.Fatalf("r1 was on GPU %q", pinned)
	}
	kill(t, r1.PID)
	w.readyAgain(r1)
	r1, _ = remote.FindReplica(w.waitFor(func(s control.Status) bool { return s.Replicas[1].State == control.StateReady }), "r1")
	if pinned := environmentOf(t, r1.PID)["CUDA_VISIBLE_DEVICES"]; pinned != "0" {
		t.Errorf("r1 was started on GPU %q: without the lost one, CUDA calls its GPU 0", pinned)
	}
}

// environmentOf reads the environment of a process.
func environmentOf(t *testing.T, pid int) map[string]string {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for entry := range strings.SplitSeq(string(content), "\x00") {
		if name, value, ok := strings.Cut(entry, "="); ok {
			out[name] = value
		}
	}
	return out
}

// metric is the value of the first series of GET /metrics that begins so.
func metric(t *testing.T, w *running, prefix string) string {
	t.Helper()
	resp, err := http.Get(w.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, prefix) && len(fields) == 2 {
			return fields[1]
		}
	}
	return "missing"
}
