package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/doctor"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/gpu/gputest"
)

type diagnosis struct {
	Schema   int              `json:"schema"`
	OK       bool             `json:"ok"`
	Findings []doctor.Finding `json:"findings"`
}

// diagnose runs `warden doctor --json` in a home of its own.
func diagnose(t *testing.T, home string, flags ...string) (diagnosis, int) {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"doctor", "--json"}, flags...)...)
	cmd.Env, cmd.Dir = append(environment(home), "WARDEN_NVML_LIBRARY=/no/such/library.so"), home
	out, _ := cmd.Output() // the exit code is looked at
	var d diagnosis
	if err := json.Unmarshal(out, &d); err != nil || d.Schema != 1 {
		t.Fatalf("not the document: %v\n%s", err, out)
	}
	return d, cmd.ProcessState.ExitCode()
}

func (d diagnosis) of(check string) doctor.Finding {
	for _, f := range d.Findings {
		if f.Check == check {
			return f
		}
	}
	return doctor.Finding{}
}

func TestDoctorWithoutADriver(t *testing.T) {
	d, code := diagnose(t, newHome(t))
	if code != exit.Preflight || d.OK {
		t.Errorf("exit code %d, ok %v", code, d.OK)
	}
	if f := d.of("driver"); f.Mark != doctor.Fail || !strings.Contains(f.Fact, "code 12") {
		t.Errorf("driver: %+v", f)
	}
	for _, check := range []string{"configuration", "vllm", "port", "/dev/shm", "open files", "memory", "runtime dir", "state dir"} {
		if f := d.of(check); f.Mark == "" || f.Mark != doctor.OK && f.Fix == "" {
			t.Errorf("%s: %+v", check, f)
		}
	}
}

func TestDoctorSeesWhatWasLeft(t *testing.T) {
	w := start(t, "--dp", "1")
	writeFile(t, w.home+"/warden/config.yaml", "listen: "+strings.TrimPrefix(w.url, "http://")+"\nengine:\n  device: simulated\n")
	d, _ := diagnose(t, w.home)
	if f := d.of("port"); f.Mark != doctor.OK || !strings.Contains(f.Fact, "served by the warden that runs") {
		t.Errorf("port of a running warden: %+v", f)
	}
	if f := d.of("engines"); f.Check != "" {
		t.Errorf("engines of a running warden: %+v", f)
	}
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.done
	d, _ = diagnose(t, w.home)
	if f := d.of("engines"); f.Mark != doctor.Warn || !strings.Contains(f.Fact, "r0 of qwen3-4b") {
		t.Errorf("engines after a crash: %+v", f)
	}
	if f := d.of("port"); f.Mark != doctor.OK {
		t.Errorf("port after a crash: %+v", f)
	}
}

func TestDoctorGoesOnWithABadConfiguration(t *testing.T) {
	home := newHome(t)
	writeFile(t, home+"/warden/config.yaml", "spil_limit: 3\n")
	d, code := diagnose(t, home)
	if f := d.of("configuration"); code != exit.Preflight || f.Mark != doctor.Fail || !strings.Contains(f.Fact, "spil_limit") {
		t.Errorf("exit code %d, %+v", code, f)
	}
	if f := d.of("state dir"); f.Mark != doctor.OK {
		t.Errorf("state dir: %+v", f)
	}
}

// What the cards say of themselves is found, over the driver's own interface.
func TestDoctorOverSickGPUs(t *testing.T) {
	box := newGPUBox(t, 2, gputest.Build(t))
	box.gpus[3] += " limit=100 default=140 ecc=2 recovery=1" // NVML's index 1 is the first on the bus
	box.set("code nvmlDeviceGetHandleByIndex_v2@0 15")
	run := func(args ...string) string {
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Dir = append(environment(box.home), box.env...), box.home
		out, _ := cmd.CombinedOutput() // doctor fails: there is no vLLM
		return string(out)
	}
	out := run("doctor")
	for _, want := range []string{
		"warn  gpu health     GPU 0 (RTX A4000): the driver asks for a reset of this GPU; warden sets it aside; fix: stop what uses it, then `sudo nvidia-smi --gpu-reset -i " + gputest.UUID(0),
		"GPU 0 (RTX A4000) had 2 memory errors that could not be corrected", "is limited to 100 W, 140 W is its default",
		"the GPU with NVML index 0 does not answer: a GPU fell off the bus",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	out = run("gpus")
	for _, want := range []string{"GPU 0: the driver asks for a reset of this GPU\n  fix: stop what uses it", "the GPU with NVML index 0 does not answer: a GPU fell off the bus", "  fix: `sudo dmesg"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
}
