package gpuwatch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// A warden that starts anew while the driver refuses everything, or has lost a
// GPU, would find no place for engines that run well, and end or forget them.
// So each warden notes which GPUs it saw, and the next one in the same boot
// counts those that it still has an interest in, whether they answer or not.

// seenFile, in the state directory, holds the GPUs of the last good look.
const seenFile = "gpus.json"

type seenGPUs struct {
	BootID    string        `json:"boot_id"`
	Inventory gpu.Inventory `json:"inventory"`
}

// readSeen returns what was seen in this boot; nothing where that is not known.
func readSeen(dir, bootID string) gpu.Inventory {
	content, err := os.ReadFile(filepath.Join(dir, seenFile))
	var seen seenGPUs
	if err != nil || json.Unmarshal(content, &seen) != nil || seen.BootID != bootID || bootID == "" {
		return gpu.Inventory{}
	}
	return seen.Inventory
}

func writeSeen(dir, bootID string, inv gpu.Inventory) error {
	content, err := json.Marshal(seenGPUs{BootID: bootID, Inventory: inv})
	if err != nil {
		return err
	}
	return paths.Replace(filepath.Join(dir, seenFile), content)
}

// withSeen completes a look at the GPUs by those of the last one that an engine
// of ours runs on, or that are set aside. An error stays one when nothing of
// ours runs: then a start is what the driver refuses.
func withSeen(found gpu.Inventory, err error, seen gpu.Inventory, left []shim.State, aside map[string]supervisor.Aside) (gpu.Inventory, error) {
	ours := func(uuid string) bool {
		return slices.ContainsFunc(left, func(s shim.State) bool { return slices.Contains(s.GPUUUIDs, uuid) })
	}
	if err != nil {
		if gpu.StartsFail(err) && slices.ContainsFunc(seen.Devices, func(d gpu.Device) bool { return ours(d.UUID) }) {
			return seen, nil
		}
		return found, err
	}
	var missing []gpu.Device
	for _, d := range seen.Devices {
		_, isAside := aside[d.UUID]
		if _, here := found.Find(d.UUID); !here && (isAside || ours(d.UUID)) {
			d.MemoryFree, d.MemoryUsed, d.Processes = d.MemoryFree+d.MemoryUsed, 0, nil // it keeps its place in the plan
			missing = append(missing, d)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	// The numbers of before, so that every replica keeps its own: links and --gpus
	// go by them. What CUDA calls a GPU now is asked at each start (Pin).
	all := slices.Concat(found.Devices, missing)
	next := 0 // for those that were not there before
	for _, d := range seen.Devices {
		next = max(next, d.Index+1)
	}
	for i, d := range all {
		if before, known := seen.Find(d.UUID); known {
			all[i].Index = before.Index
		} else {
			all[i].Index, next = next, next+1
		}
	}
	slices.SortFunc(all, func(a, b gpu.Device) int { return cmp.Compare(a.Index, b.Index) })
	found.Devices, found.Links = all, seen.Links
	return found, nil
}

// Pin answers keep.Options.Pin: a replica's GPUs as CUDA numbers them now.
func (w *Watch) Pin(ctx context.Context, s supervisor.Spec) (supervisor.Spec, error) {
	if w.source == nil || w.fake != nil || len(s.GPUUUIDs) == 0 {
		return s, nil
	}
	inv, err := w.source.Detect(ctx)
	if err != nil {
		return s, nil // nothing better is known; what is wrong with the driver is told elsewhere
	}
	return repinned(s, w.inventory, inv)
}

// repinned moves a spec from the numbers of one look to those of another.
func repinned(s supervisor.Spec, before, now gpu.Inventory) (supervisor.Spec, error) {
	var old, moved gpu.Group
	for _, uuid := range s.GPUUUIDs {
		d, here := now.Find(uuid)
		if !here {
			return s, fmt.Errorf("GPU %s does not answer, `warden gpus` shows those that do", uuid)
		}
		was, known := before.Find(uuid)
		if !known {
			return s, errors.New("GPU " + uuid + " is not in the plan")
		}
		old, moved = append(old, was), append(moved, d)
	}
	// What a user set for the engine comes behind, and stays.
	s.Env = slices.Clone(s.Env)
	for i, entry := range old.Env() {
		if at := slices.Index(s.Env, entry); at >= 0 {
			s.Env[at] = moved.Env()[i]
		}
	}
	return s, nil
}

// BootID tells this boot of the machine from others, "" where the kernel does not tell it.
func BootID(log *slog.Logger) string {
	id, err := proc.BootID()
	if err != nil {
		log.Warn("GPUs set aside stay so after a reboot", "err", err)
	}
	return id
}
