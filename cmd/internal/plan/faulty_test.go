package plan

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// A GPU with a fault, or one set aside in this boot, is taken only when there
// are too few others.
func TestPlacesAvoidFaultyGPUs(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	cfg := configs.Default()
	boot, err := proc.BootID()
	if err != nil {
		t.Fatal(err)
	}
	state, err := json.Marshal(map[string]any{"boot_id": boot, "set_aside": map[string]supervisor.Aside{"GPU-a": {Cause: "XID 79"}}})
	if err != nil {
		t.Fatal(err)
	}
	dir := paths.StateDir(cfg.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "supervisor.json"), state, 0o600); err != nil {
		t.Fatal(err)
	}
	inv := gpu.Inventory{Devices: []gpu.Device{{Index: 0, UUID: "GPU-a"}, {Index: 1, UUID: "GPU-b"}, {Index: 2, UUID: "GPU-c"}}}
	inv.Devices[1].Health.Recovery = gpu.RecoveryReset
	avoid := Faulty(cfg, inv)
	if slices.Sort(avoid); !slices.Equal(avoid, []string{"GPU-a", "GPU-b"}) {
		t.Fatalf("avoids %v", avoid)
	}
	for _, tt := range []struct {
		dp   int
		gpus []int
		want []int
	}{{1, nil, []int{2}}, {0, nil, []int{0, 1, 2}}, {2, nil, []int{0, 1}}, {1, []int{0}, []int{0}}} {
		places, err := Places(cfg, []Model{{Model: configs.Model{Alias: "m", DP: tt.dp, TP: 1, GPUs: tt.gpus}}}, inv, avoid)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		for _, p := range places[0] {
			got = append(got, p.GPUs().Indices()...)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("dp %d of GPUs %v: %v, want %v", tt.dp, tt.gpus, got, tt.want)
		}
	}
}
