//go:build cgo

package gpu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/gpu/gputest"
)

// misbehave is the body of children that do not live long.
func misbehave(mode string) {
	switch mode {
	case "unguarded":
		// What a forgotten guard does: the loader ends the process.
		lib := nvml.New(nvml.WithLibraryPath(os.Getenv(libraryEnv)))
		if lib.Init() != nvml.SUCCESS {
			os.Exit(3)
		}
		_, _ = lib.DeviceGetCount()
		os.Exit(4) // not reached: the symbol is missing
	case "nonsense":
		fmt.Println("Loading NVML, please wait")
		select {}
	default:
		os.Exit(5)
	}
}

// start runs the test binary as the NVML child over a library and a state. The
// PIDs of its processes arrive on the channel. Back-off is as good as none.
func start(t *testing.T, mode, library string, state *gputest.State, opts ChildOptions) (*Child, <-chan int) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), childEnv+"="+mode, libraryEnv+"="+library)
	if state != nil {
		env = append(env, state.Env())
	}
	opts.Backoff = time.Nanosecond
	if opts.Budget == 0 {
		opts.Budget = 20 * time.Second // a slow machine is no failure here
	}
	opts = opts.withDefaults()
	pids := make(chan int, 100)
	child := newChild(opts, func() (*process, error) {
		p, err := spawn([]string{exe}, env)
		if err == nil {
			pids <- p.pid
		}
		return p, err
	})
	t.Cleanup(func() {
		if err := child.Close(); err != nil {
			t.Error(err)
		}
		for len(pids) > 0 {
			if pid := <-pids; syscall.Kill(pid, 0) != syscall.ESRCH {
				t.Errorf("the child %d is still there after Close", pid)
			}
		}
	})
	return child, pids
}

func serveFake(t *testing.T, lines []string, omit ...string) (*Child, *gputest.State) {
	t.Helper()
	state := gputest.NewState(t, lines...)
	child, _ := start(t, "serve", gputest.Build(t, omit...), state, ChildOptions{})
	return child, state
}

func detect(t *testing.T, child *Child) Inventory {
	t.Helper()
	inv, err := child.Detect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return inv
}

// until calls try until it succeeds, or fails the test after a minute.
func until(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("still failing after a minute: %v", err)
		}
	}
}

func TestDetect(t *testing.T) {
	self := os.Getpid()
	child, _ := serveFake(t, []string{
		"driver 580.95.05", "cuda 13020",
		"gpu 0 name=NVIDIA_RTX_A4000 uuid=GPU-b bus=00000000:AF:00.0 total=16376 used=2 reserved=300 cc=8.6",
		"gpu 1 name=NVIDIA_RTX_A4000 uuid=GPU-a bus=00000000:3B:00.0 total=16376 used=2 reserved=300 cc=8.6",
		"gpu 2 name=NVIDIA_H100_80GB_HBM3 uuid=GPU-c bus=00010000:01:00.0 total=81559 used=10 reserved=500 cc=9.0 mig=1 mode=3",
		fmt.Sprintf("proc 1 %d 1000", self), fmt.Sprintf("proc 1 %d 24", os.Getppid()), fmt.Sprintf("proc 0 %d 0", self),
		"topo 0 1 20", "topo 0 2 30", "nvlink 0 1 4", "switch 2 2 18",
	})
	got := detect(t, child)

	// Whose processes these are is /proc's to say; package host tests that.
	var holders []int
	for i, d := range got.Devices {
		for j, p := range d.Processes {
			if p.Name == "" || p.User == "" {
				t.Errorf("process %d has no name or user: %+v", p.PID, p)
			}
			holders = append(holders, d.Index)
			got.Devices[i].Processes[j].Name, got.Devices[i].Processes[j].User = "", ""
		}
	}
	if want := []int{0, 0, 1}; !slices.Equal(holders, want) {
		t.Errorf("processes on GPUs %v, want %v", holders, want)
	}
	const mib = 1 << 20
	processes := []Process{{PID: self, Memory: 1000 * mib}, {PID: os.Getppid(), Memory: 24 * mib}}
	slices.SortFunc(processes, func(a, b Process) int { return a.PID - b.PID })
	want := Inventory{
		Driver: "580.95.05", CUDA: "13.2",
		Devices: []Device{
			{Index: 0, UUID: "GPU-a", Name: "NVIDIA RTX A4000", PCIBusID: "0000:3b:00.0", Memory: 16376 * mib, MemoryUsed: 1026 * mib,
				MemoryFree: (16376 - 300 - 1026) * mib, ComputeCap: [2]int{8, 6}, NUMANode: -1, ComputeMode: "DEFAULT", Processes: processes},
			{Index: 1, UUID: "GPU-b", Name: "NVIDIA RTX A4000", PCIBusID: "0000:af:00.0", Memory: 16376 * mib, MemoryUsed: 2 * mib,
				MemoryFree: (16376 - 300 - 2) * mib, ComputeCap: [2]int{8, 6}, NUMANode: -1, ComputeMode: "DEFAULT", Processes: []Process{{PID: self}}},
			{Index: 2, UUID: "GPU-c", Name: "NVIDIA H100 80GB HBM3", PCIBusID: "10000:01:00.0", Memory: 81559 * mib, MemoryUsed: 10 * mib,
				MemoryFree: (81559 - 500 - 10) * mib, ComputeCap: [2]int{9, 0}, NUMANode: -1, MIG: true, ComputeMode: "EXCLUSIVE_PROCESS"},
		},
		Links: []Link{
			{A: 0, B: 1, Level: LevelMultiple, NVLinks: 4},
			{A: 0, B: 2, Level: LevelSystem},
			{A: 1, B: 2, Level: LevelHostBridge},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestHealth(t *testing.T) {
	lines := gputest.A4000s(2) // NVML index 1 is the first on the bus
	lines[3] += " limit=100 default=140 ecc=3 remap=2 recovery=1"
	child, state := serveFake(t, lines)
	got := detect(t, child)
	want := Health{ECCUncorrected: new(uint64(3)), RemapFailed: true, PowerLimit: new(100.0), PowerDefault: new(140.0), Recovery: RecoveryReset}
	if diff := cmp.Diff(want, got.Devices[0].Health); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(Health{}, got.Devices[1].Health); diff != "" {
		t.Errorf("a card that says nothing: %s", diff)
	}
	samples, err := child.Sample(t.Context())
	if err != nil || samples[0].Recovery != RecoveryReset || samples[1].Recovery != RecoveryNone {
		t.Errorf("%+v %v", samples, err)
	}
	lines[3] += " remap=1 recovery=0"
	state.Set(lines...)
	if got := detect(t, child).Devices[0].Health; !got.RemapPending || got.RemapFailed || got.Recovery != RecoveryNone {
		t.Errorf("%+v", got)
	}
}

func TestDetectSwitch(t *testing.T) {
	child, _ := serveFake(t, append(gputest.A4000s(3), "switch 0 0 18", "switch 1 1 18", "switch 2 2 12"))
	inv := detect(t, child)
	for pair, want := range map[[2]int]int{{0, 1}: 12, {0, 2}: 12, {1, 2}: 18} { // NVML index 2 is GPU 0
		if got := inv.Between(pair[0], pair[1]).NVLinks; got != want {
			t.Errorf("GPUs %v share %d NVLinks, want %d", pair, got, want)
		}
	}
}

func TestDetectCountsMemoryOfTheLivingOnly(t *testing.T) {
	sleeper := exec.Command("sleep", "600")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	pid := sleeper.Process.Pid
	child, _ := serveFake(t, append(gputest.A4000s(1), fmt.Sprintf("proc 0 %d 9000", pid)))
	before := detect(t, child).Devices[0]
	if before.MemoryUsed != 9002<<20 || len(before.Processes) != 1 || before.Processes[0].Name != "sleep" {
		t.Errorf("with the process: %+v", before)
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleeper.Wait() // "signal: killed"
	if after := detect(t, child).Devices[0]; after.MemoryUsed != 2<<20 || len(after.Processes) != 0 {
		t.Errorf("without the process: %+v", after)
	}
}

func TestSample(t *testing.T) {
	lines := gputest.A4000s(2)
	lines[3] += " util=87 temp=83 power=131 throttle=97" // idle 1, sw thermal 32, hw thermal 64; GPU 0 on the bus
	child, state := serveFake(t, lines)
	samples, err := child.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != 2 || time.Since(samples[0].At) > time.Minute {
		t.Fatalf("samples: %+v", samples)
	}
	samples[0].At = time.Time{}
	const mib = 1 << 20
	want := Sample{UUID: gputest.UUID(0), Index: 0, MemoryUsed: 2 * mib, MemoryFree: (16376 - 302) * mib, MemoryTotal: 16376 * mib,
		Utilization: new(0.87), PowerWatts: new(131.0), TemperatureC: new(83.0), Throttled: []string{"sw_thermal", "hw_thermal"}}
	if diff := cmp.Diff(want, samples[0]); diff != "" {
		t.Error(diff)
	}

	// A GPU that falls off the bus fails alone; NVML index 0 is GPU 1.
	state.Set(append(lines, "code nvmlDeviceGetMemoryInfo_v2@0 15", "code nvmlDeviceGetMemoryInfo@0 15")...)
	samples, err = child.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s := samples[1]; s.Code != CodeGPULost || s.UUID != gputest.UUID(1) || !strings.Contains(s.Err, "fell off the bus") || s.MemoryTotal != 0 {
		t.Errorf("the lost GPU: %+v", s)
	}
	if s := samples[0]; s.Err != "" || s.MemoryTotal == 0 {
		t.Errorf("the other GPU: %+v", s)
	}

	// What a card does not support stays empty, and is no error.
	state.Set(append(lines, "code nvmlDeviceGetMemoryInfo_v2 3", "code nvmlDeviceGetMemoryInfo 3", "code nvmlDeviceGetUtilizationRates 3",
		"code nvmlDeviceGetPowerUsage 3", "code nvmlDeviceGetTemperature 3", "code nvmlDeviceGetCurrentClocksEventReasons 3",
		"code nvmlDeviceGetCurrentClocksThrottleReasons 3")...)
	samples, err = child.Sample(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	samples[0].At = time.Time{}
	if diff := cmp.Diff(Sample{UUID: gputest.UUID(0)}, samples[0]); diff != "" {
		t.Error(diff)
	}
}

// When every GPU fails, as after a suspend, the session with the driver is
// broken, and a new process gets a new one.
func TestSampleOfABrokenSession(t *testing.T) {
	state := gputest.NewState(t, gputest.A4000s(2)...)
	child, pids := start(t, "serve", gputest.Build(t), state, ChildOptions{})
	if _, err := child.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	state.Set(append(gputest.A4000s(2), "code nvmlDeviceGetMemoryInfo_v2 999", "code nvmlDeviceGetMemoryInfo 999")...)
	if _, err := child.Sample(t.Context()); codeOfError(err) != CodeUnknown {
		t.Errorf("got %v, want code 999", err)
	}
	state.Set(gputest.A4000s(2)...)
	until(t, func() error { _, err := child.Sample(t.Context()); return err })
	if len(pids) < 2 {
		t.Error("the same process went on")
	}
}

// The only GPU is gone, also for a new process.
func TestAllGPUsLost(t *testing.T) {
	child, _ := serveFake(t, append(gputest.A4000s(1), "code nvmlDeviceGetHandleByIndex_v2 15"))
	if _, err := child.Detect(t.Context()); codeOfError(err) != CodeGPULost {
		t.Errorf("Detect: %v", err)
	}
	until(t, func() error { // past the death of the child that Detect condemned
		_, err := child.Sample(t.Context())
		if codeOfError(err) == CodeGPULost {
			return nil
		}
		return errors.Join(errors.New("Sample"), err)
	})
}

func TestDetectLostGPU(t *testing.T) {
	child, _ := serveFake(t, append(gputest.A4000s(3), "code nvmlDeviceGetHandleByIndex_v2@1 15"))
	inv := detect(t, child)
	if len(inv.Devices) != 2 || inv.Devices[1].Index != 1 || inv.Devices[1].UUID != gputest.UUID(2) {
		t.Errorf("devices: %+v", inv.Devices)
	}
	if len(inv.Lost) != 1 || inv.Lost[0].NVMLIndex != 1 || inv.Lost[0].Code != CodeGPULost {
		t.Errorf("lost: %+v", inv.Lost)
	}
	if d, ok := inv.Find(gputest.UUID(2)); !ok || d.Index != 1 {
		t.Errorf("the last GPU moved up to index 1, Find says %+v, %v", d, ok)
	}
}

func TestInitFailures(t *testing.T) {
	library := gputest.Build(t)
	for _, code := range []int{CodeNoPermission, CodeDriverNotLoaded, CodeDriverMismatch, CodeUnknown} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			state := gputest.NewState(t, append(gputest.A4000s(1), fmt.Sprintf("code nvmlInit_v2 %d", code))...)
			child, _ := start(t, "serve", library, state, ChildOptions{})
			_, err := child.Detect(t.Context())
			if codeOfError(err) != code {
				t.Fatalf("got %v, want code %d", err, code)
			}
			if what, fix := Describe(err); !strings.Contains(what, codeTexts[code].what) || fix != codeTexts[code].fix {
				t.Errorf("Describe: %q, %q", what, fix)
			}
			// The driver gets loaded: the same Child must find it.
			state.Set(gputest.A4000s(1)...)
			until(t, func() error { _, err := child.Detect(t.Context()); return err })
		})
	}
}

func TestMissingLibrary(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if err := os.WriteFile(damaged, []byte("no ELF file at all, but longer than its header: "+strings.Repeat("x", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ library, why string }{
		"absent":  {filepath.Join(t.TempDir(), "libnvidia-ml.so.1"), "No such file"},
		"damaged": {damaged, "ELF"},
	} {
		t.Run(name, func(t *testing.T) {
			child, _ := start(t, "serve", test.library, nil, ChildOptions{})
			_, err := child.Detect(t.Context())
			if codeOfError(err) != CodeLibraryNotFound || !strings.Contains(err.Error(), test.why) {
				t.Errorf("got %v, want code 12 and %q", err, test.why)
			}
		})
	}
	t.Run("usual places", func(t *testing.T) {
		if _, err := (&nvmlDriver{}).load(); err == nil {
			t.Skip("this machine has a driver")
		}
		child, _ := start(t, "serve", "", nil, ChildOptions{})
		_, err := child.Detect(t.Context())
		if codeOfError(err) != CodeLibraryNotFound || !strings.Contains(err.Error(), codeTexts[CodeLibraryNotFound].why) {
			t.Errorf("got %v", err)
		}
	})
}

func TestNoGPU(t *testing.T) {
	child, _ := serveFake(t, []string{"driver 580.95.05"})
	if _, err := child.Detect(t.Context()); codeOfError(err) != 28 {
		t.Errorf("got %v, want code 28", err)
	}
}

// optional are the functions that some driver does not have.
var optional = []string{
	"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion_v2", "nvmlDeviceGetName", "nvmlDeviceGetMemoryInfo",
	"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCudaComputeCapability", "nvmlDeviceGetComputeMode", "nvmlDeviceGetMigMode",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature", "nvmlDeviceGetCurrentClocksEventReasons",
	"nvmlDeviceGetCurrentClocksThrottleReasons", "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v3",
	"nvmlDeviceGetTopologyCommonAncestor", "nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemoteDeviceType",
	"nvmlDeviceGetNvLinkRemotePciInfo_v2", "nvmlEventSetCreate", "nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
	"nvmlEventSetWait_v2",
}

func TestMissingOptionalSymbols(t *testing.T) {
	state := gputest.NewState(t, append(gputest.A4000s(2), "nvlink 0 1 4")...)
	flavours := map[string][]string{"all": optional}
	for _, symbol := range optional {
		flavours[symbol] = []string{symbol}
	}
	object := gputest.Compile(t)
	for name, omit := range flavours {
		t.Run(name, func(t *testing.T) {
			child, pids := start(t, "serve", object.Without(t, omit...), state, ChildOptions{})
			if inv := detect(t, child); len(inv.Devices) != 2 {
				t.Errorf("devices: %+v", inv.Devices)
			}
			samples, err := child.Sample(t.Context())
			if err != nil || len(samples) != 2 {
				t.Errorf("samples: %+v, %v", samples, err)
			}
			if len(pids) != 1 {
				t.Errorf("%d children were needed, want 1", len(pids))
			}
		})
	}
}

func TestMissingMemoryV2FallsBack(t *testing.T) {
	child, _ := serveFake(t, gputest.A4000s(1), "nvmlDeviceGetMemoryInfo_v2")
	// Version 1 counts the 300 MiB that the driver reserves as used.
	if d := detect(t, child).Devices[0]; d.MemoryUsed != 302<<20 || d.MemoryFree != (16376-302)<<20 {
		t.Errorf("memory: %+v", d)
	}
}

func TestMissingRequiredSymbols(t *testing.T) {
	state := gputest.NewState(t, gputest.A4000s(1)...)
	object := gputest.Compile(t)
	for symbol, check := range map[string]func(Inventory, error) bool{
		"nvmlInit_v2":           func(_ Inventory, err error) bool { return codeOfError(err) == CodeNoSuchFunction },
		"nvmlDeviceGetCount_v2": func(_ Inventory, err error) bool { return codeOfError(err) == CodeNoSuchFunction },
		"nvmlDeviceGetUUID":     func(_ Inventory, err error) bool { return codeOfError(err) == CodeNoSuchFunction },
	} {
		t.Run(symbol, func(t *testing.T) {
			child, _ := start(t, "serve", object.Without(t, symbol), state, ChildOptions{})
			if inv, err := child.Detect(t.Context()); !check(inv, err) {
				t.Errorf("got %+v, %v", inv, err)
			}
		})
	}
}

// An unguarded call of a missing function ends the child, and only the child.
func TestUnguardedSymbolEndsTheChildOnly(t *testing.T) {
	state := gputest.NewState(t, gputest.A4000s(1)...)
	child, _ := start(t, "unguarded", gputest.Build(t, "nvmlDeviceGetCount_v2"), state, ChildOptions{})
	_, err := child.Detect(t.Context())
	if codeOfError(err) != CodeChildEnded || !strings.Contains(err.Error(), "127") || !strings.Contains(err.Error(), "nvmlDeviceGetCount") {
		t.Errorf("got %v, want exit status 127 and the symbol", err)
	}
}

func TestNonsenseOutput(t *testing.T) {
	child, _ := start(t, "nonsense", "", nil, ChildOptions{})
	if _, err := child.Detect(t.Context()); codeOfError(err) != CodeChildEnded || !strings.Contains(err.Error(), "not a message") {
		t.Errorf("got %v", err)
	}
}

func TestHangAndRecovery(t *testing.T) {
	for _, call := range []string{"nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetCount_v2"} { // one while serving, one while starting
		t.Run(call, func(t *testing.T) {
			state := gputest.NewState(t, gputest.A4000s(1)...)
			opts := ChildOptions{Budget: time.Second, StartBudget: 2 * time.Second, DetectBudget: time.Second}
			child, pids := start(t, "serve", gputest.Build(t), state, opts)
			state.Set(append(gputest.A4000s(1), "block "+call)...)
			begin := time.Now()
			_, err := child.Detect(t.Context())
			if codeOfError(err) != CodeNoAnswer {
				t.Fatalf("got %v, want no answer", err)
			}
			if took := time.Since(begin); took > opts.StartBudget+opts.DetectBudget+time.Second {
				t.Errorf("the call took %v", took)
			}
			state.Set(gputest.A4000s(1)...)
			until(t, func() error { _, err := child.Detect(t.Context()); return err })
			if len(pids) < 2 {
				t.Error("the child that hung answered again, it should have been replaced")
			}
		})
	}
}

func TestChildKilledAndRecovery(t *testing.T) {
	state := gputest.NewState(t, gputest.A4000s(1)...)
	child, pids := start(t, "serve", gputest.Build(t), state, ChildOptions{})
	detect(t, child)
	pid := <-pids
	if group, err := syscall.Getpgid(pid); err != nil || group != pid {
		t.Errorf("the child is in process group %d (%v): a Ctrl-C for warden would reach it", group, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, func() error {
		if len(pids) == 0 { // the old one may still answer a call it has read
			_, err := child.Sample(t.Context())
			return errors.Join(errors.New("no new child yet"), err)
		}
		_, err := child.Sample(t.Context())
		return err
	})
}

// A library that does not fit the module any more is seen by a new program
// only: the child that runs goes on.
func TestProbeSeesWhatTheRunningChildCannot(t *testing.T) {
	library := gputest.Build(t)
	state := gputest.NewState(t, gputest.A4000s(1)...)
	child, _ := start(t, "serve", library, state, ChildOptions{})
	detect(t, child)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	opts := ChildOptions{Argv: []string{exe}, Env: append(os.Environ(), childEnv+"=serve", libraryEnv+"="+library, state.Env())}
	if err := Probe(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	state.Set(append(gputest.A4000s(1), "code nvmlInit_v2 18")...)
	if _, err := child.Sample(t.Context()); err != nil {
		t.Errorf("the running child noticed: %v", err)
	}
	if err := Probe(t.Context(), opts); !StartsFail(err) {
		t.Errorf("the probe did not: %v", err)
	}
}

func TestXIDs(t *testing.T) {
	child, state := serveFake(t, gputest.A4000s(2))
	detect(t, child)
	state.Set(append(gputest.A4000s(2), "xid 1 0 31", "xid 2 1 79")...)
	for _, want := range []XID{{UUID: gputest.UUID(1), Code: 31}, {UUID: gputest.UUID(0), Code: 79}} {
		select {
		case got := <-child.Events():
			if time.Since(got.At) > time.Minute {
				t.Errorf("an old event: %v", got.At)
			}
			got.At = time.Time{}
			if got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("no %v", want)
		}
	}
}
