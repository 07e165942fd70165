package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/xid"
)

func TestTopology(t *testing.T) {
	links := func(l ...gpu.Link) gpu.Inventory { return gpu.Inventory{Links: l} }
	pair := gpu.Group{{Index: 0}, {Index: 1}}
	four := gpu.Group{{Index: 0}, {Index: 1}, {Index: 2}, {Index: 3}}
	tests := []struct {
		name string
		inv  gpu.Inventory
		g    gpu.Group
		mark Mark // "" = nothing is said
		fact string
	}{
		{"single", links(), gpu.Group{{Index: 0}}, "", ""},
		{"one switch", links(gpu.Link{A: 0, B: 1, Level: gpu.LevelSingle}), pair, OK, "GPUs 0,1 are at most PIX apart"},
		{"NVLink across nodes", links(gpu.Link{A: 0, B: 1, Level: gpu.LevelSystem, NVLinks: 4}), pair, OK, "GPUs 0,1 share 4 NVLinks"},
		{"host bridge", links(gpu.Link{A: 0, B: 1, Level: gpu.LevelHostBridge}), pair, Warn,
			"GPUs 0,1 of one replica talk through the host bridge (PHB): tensor parallelism waits for it at every layer"},
		{"two bridged pairs", links(
			gpu.Link{A: 0, B: 1, Level: gpu.LevelSystem, NVLinks: 4}, gpu.Link{A: 2, B: 3, Level: gpu.LevelSystem, NVLinks: 4},
			gpu.Link{A: 0, B: 2, Level: gpu.LevelNode}, gpu.Link{A: 0, B: 3, Level: gpu.LevelSystem},
			gpu.Link{A: 1, B: 2, Level: gpu.LevelNode}, gpu.Link{A: 1, B: 3, Level: gpu.LevelNode}), four, Warn,
			"GPUs 0,1,2,3 of one replica talk across NUMA nodes (SYS): tensor parallelism waits for it at every layer"},
		{"unknown", links(), pair, "", ""},
	}
	for _, tt := range tests {
		got := topology(Facts{GPU: GPU{Inventory: tt.inv, Groups: []gpu.Group{tt.g}}})
		switch {
		case tt.mark == "" && len(got) == 0:
		case len(got) != 1 || got[0].Mark != tt.mark || got[0].Fact != tt.fact || (tt.mark == Warn) != (got[0].Fix != ""):
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// The device gives one record a read, loses some, and says "again" at the end.
func TestReadRecords(t *testing.T) {
	type answer struct {
		text string
		err  error
	}
	reader := func(answers ...answer) func([]byte) (int, error) {
		return func(b []byte) (int, error) {
			next := answers[0]
			answers = answers[1:]
			return copy(b, next.text), next.err
		}
	}
	got := readRecords(reader(
		answer{"6,1,1000000,-;Linux version 6.8\n", nil}, answer{"", syscall.EPIPE}, answer{"", syscall.EINTR},
		answer{"3,2,2000000,-;NVRM: Xid (PCI:0000:3B:00): 79, pid=7, GPU has fallen off the bus.\n SUBSYSTEM=pci\n", nil},
		answer{"", syscall.EAGAIN}))
	want := Kernel{XIDs: []xid.Logged{{PCIBusID: "0000:3b:00.0", Code: 79, SinceBoot: 2e9, PID: 7}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := readRecords(reader(answer{"", syscall.EIO})); !errors.Is(got.Err, syscall.EIO) {
		t.Errorf("%+v", got)
	}
}

func TestLookAtKernelLog(t *testing.T) {
	if got := LookAtKernelLog(filepath.Join(t.TempDir(), "none")); !errors.Is(got.Err, os.ErrNotExist) {
		t.Errorf("%+v", got)
	}
	if got := LookAtKernelLog("/dev/kmsg"); got.Err != nil && !errors.Is(got.Err, os.ErrPermission) && !errors.Is(got.Err, os.ErrNotExist) {
		t.Errorf("the log of this machine: %v", got.Err)
	}
}
