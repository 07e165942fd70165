package plan

import (
	"slices"
	"testing"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/shim"
)

// A warden that takes over must not move replicas whose engines run, whenever
// it was that GPUs failed, and still keeps new ones from those that did.
func TestRunningEnginesKeepTheirPlaces(t *testing.T) {
	var inv gpu.Inventory
	for i, uuid := range []string{"a", "b", "c", "d"} {
		inv.Devices = append(inv.Devices, gpu.Device{Index: i, UUID: uuid, Name: "L4", Memory: 100, MemoryFree: 100})
	}
	cfg := configs.Default()
	cfg.Engine.Device = configs.DeviceCUDA
	on := func(replica string, uuids ...string) shim.State { return shim.State{Replica: replica, GPUUUIDs: uuids} }
	for name, tt := range map[string]struct {
		dp, tp int
		faulty []string
		left   []shim.State
		want   []string
	}{
		"nothing runs":               {2, 1, []string{"a"}, nil, []string{"b", "c"}},
		"failed before the start":    {2, 1, []string{"a"}, []shim.State{on("r0", "b"), on("r1", "c")}, []string{"b", "c"}},
		"failed since":               {2, 1, []string{"a"}, []shim.State{on("r1", "b")}, []string{"a", "b"}},
		"one before, one since":      {2, 1, []string{"a", "b"}, []shim.State{on("r1", "c")}, []string{"b", "c"}},
		"more replicas than before":  {2, 1, []string{"b"}, []shim.State{on("r0", "a")}, []string{"a", "c"}},
		"taken back into use":        {2, 1, nil, []shim.State{on("r0", "b"), on("r1", "c")}, []string{"b", "c"}},
		"of two GPUs":                {1, 2, []string{"a"}, []shim.State{on("r0", "b", "c")}, []string{"b", "c"}},
		"of another plan altogether": {1, 1, []string{"a"}, []shim.State{on("r0", "c", "d")}, []string{"b"}},
	} {
		models := []Model{{Model: configs.Model{Alias: "m", DP: tt.dp, TP: tt.tp}}}
		places, err := keptPlaces(cfg, models, inv, tt.left, tt.faulty)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, p := range places[0] {
			got = append(got, p.group.UUIDs()...)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: on %v, want %v", name, got, tt.want)
		}
	}
}
