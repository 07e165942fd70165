package gpuwatch

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/shim"
)

func machineOf(uuids ...string) gpu.Inventory {
	inv := gpu.Inventory{Driver: "580"}
	for i, uuid := range uuids {
		inv.Devices = append(inv.Devices, gpu.Device{Index: i, UUID: uuid, Memory: 100, MemoryUsed: 90, MemoryFree: 10})
	}
	return inv
}

func order(inv gpu.Inventory) []string {
	var out []string
	for i, d := range inv.Devices {
		if d.Index != i {
			out = append(out, "!")
		}
		out = append(out, d.UUID)
	}
	return out
}

func TestWithSeen(t *testing.T) {
	engineOn := func(uuids ...string) []shim.State { return []shim.State{{GPUUUIDs: uuids}} }
	seen := machineOf("a", "b", "c")
	lost := machineOf("b", "c") // CUDA and NVML number them anew
	tests := []struct {
		name  string
		found gpu.Inventory
		err   error
		seen  gpu.Inventory
		left  []shim.State
		aside map[string]supervisor.Aside
		want  []string // nil = the error stays
	}{
		{"first start", machineOf("a"), nil, gpu.Inventory{}, nil, nil, []string{"a"}},
		{"nothing is missing", seen, nil, seen, engineOn("a"), nil, []string{"a", "b", "c"}},
		{"lost, nobody cares", lost, nil, seen, engineOn("b"), nil, []string{"b", "c"}},
		{"lost, an engine is there", lost, nil, seen, engineOn("a"), nil, []string{"a", "b", "c"}},
		{"lost and set aside", lost, nil, seen, nil, map[string]supervisor.Aside{"a": {}}, []string{"a", "b", "c"}},
		{"a new one", machineOf("b", "d"), nil, machineOf("b"), engineOn("b"), nil, []string{"b", "d"}},
		{"one is back, another lost", machineOf("b", "c"), nil, machineOf("a", "c"), engineOn("a"), nil, []string{"a", "c", "b"}},
		{"mismatch, engines run", gpu.Inventory{}, mismatch, seen, engineOn("c"), nil, []string{"a", "b", "c"}},
		{"mismatch, nothing runs", gpu.Inventory{}, mismatch, seen, nil, nil, nil},
		{"mismatch, nothing seen", gpu.Inventory{}, mismatch, gpu.Inventory{}, engineOn("c"), nil, nil},
		{"silent driver", gpu.Inventory{}, &gpu.NVMLError{Code: gpu.CodeNoAnswer}, seen, engineOn("c"), nil, nil},
	}
	for _, tt := range tests {
		got, err := withSeen(tt.found, tt.err, tt.seen, tt.left, tt.aside)
		if (err != nil) != (tt.want == nil) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, order(got)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
	got, _ := withSeen(lost, nil, seen, engineOn("a"), nil)
	if ratio, known := got.Devices[0].FreeRatio(); !known || ratio < 0.9 {
		t.Errorf("the plan would refuse the lost one: %+v", got.Devices[0])
	}
}

func TestSeenIsOfThisBoot(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	inv := machineOf("a", "b")
	inv.Links = []gpu.Link{{A: 0, B: 1, Level: gpu.LevelSystem}}
	if err := writeSeen(dir, "boot-1", inv); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inv, readSeen(dir, "boot-1")); diff != "" {
		t.Error(diff)
	}
	for _, boot := range []string{"boot-2", ""} {
		if got := readSeen(dir, boot); len(got.Devices) != 0 {
			t.Errorf("boot %q: %+v", boot, got)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, seenFile), []byte(`{"boot_id":"boot-1","inv`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readSeen(dir, "boot-1"); len(got.Devices) != 0 {
		t.Errorf("a damaged file: %+v", got)
	}
}

func TestRepinned(t *testing.T) {
	before := machineOf("a", "b", "c")
	spec := supervisor.Spec{GPUUUIDs: []string{"b", "c"}, GPUIndices: []int{1, 2},
		Env: []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=1,2", "X=1", "CUDA_VISIBLE_DEVICES=7"}}
	untouched := slices.Clone(spec.Env)
	got, err := repinned(spec, before, machineOf("b", "c"))
	want := []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=0,1", "X=1", "CUDA_VISIBLE_DEVICES=7"}
	if err != nil || !slices.Equal(got.Env, want) || !slices.Equal(spec.Env, untouched) {
		t.Errorf("%v %v, the spec itself %v", got.Env, err, spec.Env)
	}
	if got, err := repinned(spec, before, before); err != nil || !slices.Equal(got.Env, untouched) {
		t.Errorf("nothing moved: %v %v", got.Env, err)
	}
	if _, err := repinned(spec, before, machineOf("a", "b")); err == nil {
		t.Error("a start on a GPU that is not there")
	}
}
