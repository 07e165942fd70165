package plan

import (
	"testing"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/groups"
	"github.com/lm-warden/warden/supervisor/shim"
)

// GPUs that are full of our own engines are free for the plan that adopts them.
func TestPlanSeesThroughItsOwnEngines(t *testing.T) {
	const total = 16 << 30
	inv := gpu.Inventory{Devices: []gpu.Device{
		{Index: 0, UUID: "GPU-a", Memory: total, MemoryUsed: 15 << 30, MemoryFree: 1 << 30, Processes: []gpu.Process{{PID: 7}}},
		{Index: 1, UUID: "GPU-b", Memory: total, MemoryUsed: 15 << 30, MemoryFree: 1 << 30, Processes: []gpu.Process{{PID: 8}}},
	}}
	left := []shim.State{{Replica: "r0", GPUUUIDs: []string{"GPU-a"}}}
	if _, err := groups.Plan(inv, groups.Request{DP: 1}); err == nil {
		t.Fatal("a plan on full GPUs: the test would prove nothing")
	}
	chosen, err := groups.Plan(WithoutOwn(inv, left), groups.Request{})
	if err != nil || len(chosen) != 1 || chosen[0][0].UUID != "GPU-a" {
		t.Errorf("plan %v, %v; want only GPU-a", chosen, err)
	}
	if inv.Devices[0].MemoryFree != 1<<30 {
		t.Error("the inventory that people are shown was changed too")
	}
}
