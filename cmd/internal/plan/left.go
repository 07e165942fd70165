package plan

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// Engines outlive the warden that started them: after a crash or an upgrade the
// next one adopts those that fit its plan and ends the others. So a plan must
// not be disturbed by what they hold.

// LeftEngines returns what an earlier warden left running in a runtime
// directory. What cannot be read is left out: a start ends it by its mark.
func LeftEngines(runtime string) []shim.State {
	boot, err := proc.BootID()
	if err != nil {
		return nil // states cannot be told from those of an earlier boot
	}
	entries, _ := os.ReadDir(runtime) // not there: nothing was left
	var left []shim.State
	for _, entry := range entries {
		s, err := shim.ReadState(filepath.Join(runtime, entry.Name()))
		if err == nil && s.BootID == boot && !s.Gone && (proc.Is(s.ShimPID, s.ShimStart) || proc.Is(s.PID, s.Start)) {
			left = append(left, s)
		}
	}
	return left
}

// WithoutOwn counts the memory that our own engines hold as free: each of them
// is adopted, or ended before something else starts on its GPU.
func WithoutOwn(inv gpu.Inventory, left []shim.State) gpu.Inventory {
	inv.Devices = slices.Clone(inv.Devices)
	for _, s := range left {
		for i, d := range inv.Devices {
			if slices.Contains(s.GPUUUIDs, d.UUID) {
				inv.Devices[i].MemoryFree, inv.Devices[i].MemoryUsed = d.MemoryFree+d.MemoryUsed, 0
				inv.Devices[i].Processes = nil
			}
		}
	}
	return inv
}

// keptPlaces are the places where most engines that were left stay where they
// run. Which GPUs an earlier plan avoided depends on when they failed: those that
// did before it, in the order of faulty, or what nothing runs on now. Where that
// makes no difference, all that failed are avoided.
func keptPlaces(cfg configs.Config, models []Model, inv gpu.Inventory, left []shim.State, faulty []string) ([][]Place, error) {
	places, err := Places(cfg, models, inv, faulty)
	if err != nil || len(left) == 0 {
		return places, err
	}
	var others [][]string
	for n := len(faulty) - 1; n >= 0; n-- {
		others = append(others, faulty[:n])
	}
	others = append(others, unused(inv, left))
	most := staying(places, left)
	for _, avoid := range others {
		one, err := Places(cfg, models, inv, avoid)
		if err != nil {
			return nil, err
		}
		if n := staying(one, left); n > most {
			places, most = one, n
		}
	}
	return places, nil
}

// unused are the GPUs that no engine was left on.
func unused(inv gpu.Inventory, left []shim.State) (uuids []string) {
	for _, d := range inv.Devices {
		if !slices.ContainsFunc(left, func(s shim.State) bool { return slices.Contains(s.GPUUUIDs, d.UUID) }) {
			uuids = append(uuids, d.UUID)
		}
	}
	return uuids
}

// staying counts the engines that were left on the GPUs which a plan gives to
// their replica.
func staying(places [][]Place, left []shim.State) (n int) {
	for i, place := range slices.Concat(places...) {
		if slices.ContainsFunc(left, func(s shim.State) bool {
			return s.Replica == replicaID(i) && slices.Equal(s.GPUUUIDs, place.group.UUIDs())
		}) {
			n++
		}
	}
	return n
}

// leftPort is the TCP address that a replica's engine listens on already: with
// another one it could not be adopted.
func leftPort(left []shim.State, replica string) (address string, ok bool) {
	for _, s := range left {
		if s.Replica == replica && strings.HasPrefix(s.Address, "http://") {
			return s.Address, true
		}
	}
	return "", false
}
