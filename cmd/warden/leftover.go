package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// Engines outlive the warden that started them: after a crash or an upgrade the
// next one adopts those that fit its plan and ends the others. So a plan must
// not be disturbed by what they hold.

// leftEngines returns what an earlier warden left running in a runtime
// directory. What cannot be read is left out: a start ends it by its mark.
func leftEngines(runtime string) []shim.State {
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

// withoutOwn counts the memory that our own engines hold as free: each of them
// is adopted, or ended before something else starts on its GPU.
func withoutOwn(inv gpu.Inventory, left []shim.State) gpu.Inventory {
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

// How long requests wait for the adoption, which takes some hundredths of a
// second where nothing hangs and no engine still loads its model.
const (
	adoptionLimit = 1500 * time.Millisecond
	adoptionLook  = 5 * time.Millisecond
)

// awaitAdoption returns once the router knows of every engine that was left
// running whether it serves. Clients whose answers broke with the warden before
// all come back in the same moment: turns that are placed while only some of the
// engines serve go to one that does not hold their conversation. They wait in
// the socket's queue meanwhile.
func (d *daemon) awaitAdoption(left []shim.State) {
	limit := time.NewTimer(adoptionLimit)
	defer limit.Stop()
	look := time.NewTicker(adoptionLook)
	defer look.Stop()
	for slices.ContainsFunc(d.sup.Snapshot(), func(r supervisor.Replica) bool {
		return d.undecided(r) && slices.ContainsFunc(left, func(s shim.State) bool { return s.Replica == string(r.ID) })
	}) {
		select {
		case <-look.C:
		case <-limit.C:
			return
		case <-d.stopping:
			return
		case <-d.leaving:
			return
		}
	}
}

// undecided says that a replica may be found serving any moment, or that the
// router does not know yet that it was.
func (d *daemon) undecided(r supervisor.Replica) bool {
	unproven := r.State == supervisor.Suspect && r.ReadyAt.IsZero()
	return r.State == supervisor.Pending || unproven || !d.facts.told(r)
}
