package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestEveryCodeHasAnAnswer(t *testing.T) {
	for code, text := range codeTexts {
		if text.what == "" || text.fix == "" || (text.why == "" && code != CodeChildEnded) {
			t.Errorf("code %d: %+v", code, text)
		}
	}
	for _, code := range []int{3, 4, 9, 12, 13, 15, 16, 18, 999} { // the ones that supervision must tell apart
		if _, ok := codeTexts[code]; !ok {
			t.Errorf("code %d has no text", code)
		}
	}
}

// planError is what an error of package groups is like.
type planError struct{}

func (planError) Error() string             { return "no; fix: yes" }
func (planError) Explain() (string, string) { return "no", "yes" }

func TestDescribe(t *testing.T) {
	mismatch := nvmlError(CodeDriverMismatch, "nvmlInit_v2", "")
	tests := map[string]struct {
		err       error
		what, fix string
	}{
		"nothing": {nil, "", ""},
		"foreign": {context.Canceled, "context canceled", ""},
		"a code": {mismatch, "the NVIDIA library and the loaded kernel module have different versions: the driver was upgraded and the old " +
			"module is still loaded; engines that run go on, new ones cannot start (NVML code 18 from nvmlInit_v2)", mismatch.Fix},
		"wrapped":      {fmt.Errorf("cannot start r0: %w", nvmlError(CodeGPULost, "", "gone")), "cannot start r0: a GPU fell off the bus: gone (NVML code 15)", codeTexts[CodeGPULost].fix},
		"our own code": {nvmlError(CodeChildEnded, "", ""), "the process that watches the GPUs ended", codeTexts[CodeChildEnded].fix},
		"unknown code": {nvmlError(77, "nvmlFoo", ""), "the NVIDIA driver refused a request: this code is not expected here (NVML code 77 from nvmlFoo)",
			"run `nvidia-smi`; if it fails too, reload the driver or reboot"},
		"another's, wrapped": {fmt.Errorf("qwen: %w", planError{}), "qwen: no", "yes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if what, fix := Describe(test.err); what != test.what || fix != test.fix {
				t.Errorf("got  %q / %q\nwant %q / %q", what, fix, test.what, test.fix)
			}
		})
	}
}

// The error crosses the process boundary whole.
func TestNVMLErrorJSON(t *testing.T) {
	sent := nvmlError(CodeLibraryNotFound, "dlopen", "wrong ELF class")
	line, err := json.Marshal(message{Error: sent})
	if err != nil {
		t.Fatal(err)
	}
	m, err := parseMessage(line)
	if err != nil {
		t.Fatal(err)
	}
	if m.Error == nil || *m.Error != *sent {
		t.Errorf("%+v became %+v", sent, m.Error)
	}
	if got := asNVMLError(errors.New("x")); got.Code != CodeUnknown || got.Why != "x" {
		t.Errorf("a plain error: %+v", got)
	}
}

// An XID or a sample sets its GPU aside, or does not; the fix names that GPU.
func TestFaults(t *testing.T) {
	lost := Sample{UUID: "GPU-a"}
	lost.failed(CodeGPULost, "nvmlDeviceGetMemoryInfo")
	reset := Sample{UUID: "GPU-a"}
	reset.failed(CodeResetRequired, "nvmlDeviceGetMemoryInfo")
	refused := Sample{UUID: "GPU-a"}
	refused.failed(CodeNoPermission, "nvmlDeviceGetMemoryInfo")
	tests := []struct {
		name string
		got  interface{ Fault() (Fault, bool) }
		want string // part of What; "" = no fault
		fix  string
		gone bool
	}{
		{"a program's XID", XID{UUID: "GPU-a", Code: 13}, "", "", false},
		{"an unknown XID", XID{UUID: "GPU-a", Code: 500}, "", "", false},
		{"off the bus", XID{UUID: "GPU-a", Code: 79}, "XID 79 (GPU fell off the bus)", "reboot", true},
		{"firmware", XID{UUID: "GPU-a", Code: 119}, "XID 119", "--gpu-reset -i GPU-a`", false},
		{"wrong results", XID{UUID: "GPU-a", Code: 95}, "XID 95", "--gpu-reset -i GPU-a`", true},
		{"a good sample", Sample{UUID: "GPU-a"}, "", "", false},
		{"a lost GPU", lost, "fell off the bus", "reboot", true},
		{"a GPU to reset", reset, "needs a reset", "--gpu-reset -i GPU-a`", true},
		{"no permission", refused, "", "", false},
		{"the driver asks for a reset", Sample{UUID: "GPU-a", Recovery: RecoveryReset}, "asks for a reset", "--gpu-reset -i GPU-a`", false},
		{"the driver asks for a reboot", Sample{UUID: "GPU-a", Recovery: RecoveryReboot}, "asks for a reboot", "reboot", true},
		{"the driver drains links", Sample{UUID: "GPU-a", Recovery: RecoveryDrainP2P}, "", "", false},
		{"no spare row", Device{UUID: "GPU-a", Health: Health{RemapFailed: true}}, "could not be replaced", "GPU-a", false},
		{"a row to replace", Device{UUID: "GPU-a", Health: Health{RemapPending: true}}, "", "", false},
	}
	for _, tt := range tests {
		f, ok := tt.got.Fault()
		if ok != (tt.want != "") || !strings.Contains(f.What, tt.want) || !strings.Contains(f.Fix, tt.fix) || f.Gone != tt.gone || strings.Contains(f.Fix, "INDEX") {
			t.Errorf("%s: %t %+v", tt.name, ok, f)
		}
	}
}

func TestStartsFail(t *testing.T) {
	for code, want := range map[int]bool{CodeDriverMismatch: true, CodeDriverNotLoaded: true, CodeUnknown: true, CodeLibraryNotFound: true,
		CodeGPULost: false, CodeNoAnswer: false, CodeChildEnded: false, CodeBusy: false, CodeNoSuchFunction: false} {
		if got := StartsFail(fmt.Errorf("look: %w", nvmlError(code, "", ""))); got != want {
			t.Errorf("code %d: %t", code, got)
		}
	}
	if StartsFail(nil) || StartsFail(errors.New("x")) {
		t.Error("an error of other origin holds the starts")
	}
}

func TestWithMissing(t *testing.T) {
	devices := []Device{{UUID: "GPU-a", Index: 0}, {UUID: "GPU-b", Index: 1}}
	got := WithMissing([]Sample{{UUID: "GPU-b"}}, devices, time.Unix(9, 0))
	if len(got) != 2 || got[1].UUID != "GPU-a" || got[1].Code != CodeGPULost || got[1].At.IsZero() {
		t.Fatalf("%+v", got)
	}
	if f, ok := got[1].Fault(); !ok || !f.Gone {
		t.Errorf("%+v %t", f, ok)
	}
	if got := WithMissing([]Sample{{UUID: "GPU-b"}, {UUID: "GPU-a"}}, devices, time.Unix(9, 0)); len(got) != 2 {
		t.Errorf("nothing is missing: %+v", got)
	}
	// The driver says why it cannot open one; that is no reason to set it aside unless it is lost.
	for code, want := range map[int]bool{CodeGPULost: true, CodeResetRequired: true, 19: false, CodeUnknown: false} {
		got := WithMissing([]Sample{{UUID: "GPU-b"}, {Index: -1, Code: code}}, devices, time.Unix(9, 0))
		if _, faulty := got[1].Fault(); len(got) != 2 || got[1].UUID != "GPU-a" || got[1].Code != code || faulty != want {
			t.Errorf("code %d: %+v", code, got)
		}
	}
	got = WithMissing([]Sample{{Index: -1, Code: CodeGPULost}, {Index: -1, Code: 19}}, devices, time.Unix(9, 0))
	if got[0].Code != CodeUnknown || got[1].Code != CodeUnknown {
		t.Errorf("it cannot be told which of the two is lost: %+v", got)
	}
	if got := AllLost(nvmlError(CodeGPULost, "", ""), devices, time.Unix(9, 0)); len(got) != 2 || got[1].Code != CodeGPULost {
		t.Errorf("%+v", got)
	}
	if got := AllLost(nvmlError(CodeUnknown, "", ""), devices, time.Unix(9, 0)); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestLevelNames(t *testing.T) {
	var names []string
	for _, l := range []Level{LevelUnknown, LevelInternal, LevelSingle, LevelMultiple, LevelHostBridge, LevelNode, LevelSystem, 7} {
		names = append(names, l.String())
	}
	if got, want := strings.Join(names, " "), "? INT PIX PXB PHB NODE SYS ?"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNVLinks(t *testing.T) {
	gpu := func(bus string, n int) []port {
		var ports []port
		for range n {
			ports = append(ports, port{busID: bus})
		}
		return ports
	}
	up := func(n int) []port {
		var ports []port
		for range n {
			ports = append(ports, port{toSwitch: true})
		}
		return ports
	}
	tests := map[string]struct {
		a, b []port // of GPUs "a" and "b"
		want int
	}{
		"none":             {nil, nil, 0},
		"direct":           {gpu("b", 4), gpu("a", 4), 4},
		"to another":       {gpu("c", 4), gpu("d", 4), 0},
		"one side silent":  {gpu("b", 2), nil, 2},
		"the other silent": {nil, gpu("a", 2), 2},
		"switch":           {up(18), up(12), 12},
		"switch, one side": {up(18), gpu("c", 4), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := nvlinks("a", test.a, "b", test.b); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}
