package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/xid"
)

// gpuHealth tells of cards that fail, or are held back. It warns only: a GPU
// with a fault is set aside by itself, and warden starts with the others.
func gpuHealth(f Facts) []Finding {
	if f.Config.Device != configs.DeviceCUDA || f.GPU.Err != nil || len(f.GPU.Inventory.Devices) == 0 {
		return nil
	}
	const name = "gpu health"
	var all []Finding
	told := 0 // GPUs that say anything about themselves
	for _, d := range f.GPU.Inventory.Devices {
		h := d.Health
		if h != (gpu.Health{}) {
			told++
		}
		if fault, faulty := d.Fault(); faulty {
			all = append(all, Finding{name, Warn, d.String() + ": " + fault.What + "; warden sets it aside", fault.Fix})
		}
		if h.RemapPending {
			all = append(all, Finding{name, Warn, d.String() + " waits for a reset to replace a broken memory row",
				fmt.Sprintf("at a quiet time: `sudo nvidia-smi --gpu-reset -i %s`, or reboot", d.UUID)})
		}
		if h.ECCUncorrected != nil && *h.ECCUncorrected > 0 {
			all = append(all, Finding{name, Warn, fmt.Sprintf("%s had %d memory errors that could not be corrected since the driver was loaded", d, *h.ECCUncorrected),
				fmt.Sprintf("reset it: `sudo nvidia-smi --gpu-reset -i %s`; if they come back, have the card replaced", d.UUID)})
		}
		if h.PowerLimit != nil && h.PowerDefault != nil && *h.PowerLimit < *h.PowerDefault {
			all = append(all, Finding{name, Warn, fmt.Sprintf("%s is limited to %.0f W, %.0f W is its default: long prompts take longer", d, *h.PowerLimit, *h.PowerDefault),
				fmt.Sprintf("unless it is meant so: `sudo nvidia-smi -i %d -pl %.0f`", d.Index, *h.PowerDefault)})
		}
	}
	if told > 0 && len(all) == 0 {
		return one(name, OK, "no uncorrected memory errors, no reset due, power limits at their defaults", "")
	}
	return all
}

// setAside tells of GPUs that warden does not use in this boot.
func setAside(f Facts) []Finding {
	var all []Finding
	for _, uuid := range slices.Sorted(maps.Keys(f.GPU.Aside)) {
		a, who := f.GPU.Aside[uuid], uuid
		if d, found := f.GPU.Inventory.Find(uuid); found {
			who = d.String()
		}
		all = append(all, Finding{"set aside", Warn, fmt.Sprintf("%s is not used since %s: %s", who, a.At.Format("2006-01-02 15:04"), a.Cause),
			a.Fix + "; then `warden retry` of the replica that `warden status` shows parked"})
	}
	return all
}

// xids tells of the faults in the kernel's log, one line for each GPU and code.
func xids(f Facts) []Finding {
	const name = "xid"
	if f.Config.Device != configs.DeviceCUDA || f.GPU.Err != nil {
		return nil
	}
	if errors.Is(f.Kernel.Err, fs.ErrPermission) {
		return one(name, OK, "this user may not read the kernel's log; `sudo dmesg | grep -i xid` shows the faults of the past", "")
	}
	if f.Kernel.Err != nil {
		return one(name, OK, "the kernel's log cannot be read: "+f.Kernel.Err.Error(), "")
	}
	type key struct {
		bus  string
		code int
	}
	count, last := map[key]int{}, map[key]xid.Logged{}
	for _, x := range f.Kernel.XIDs {
		k := key{x.PCIBusID, x.Code}
		count[k]++
		last[k] = x
	}
	keys := slices.SortedFunc(maps.Keys(count), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.bus, b.bus), cmp.Compare(a.code, b.code))
	})
	var all []Finding
	for _, k := range keys {
		info := xid.Lookup(k.code)
		who, uuid := "the GPU at "+k.bus, k.bus
		for _, d := range f.GPU.Inventory.Devices {
			if d.PCIBusID == k.bus {
				who, uuid = d.String(), d.UUID
			}
		}
		fact := fmt.Sprintf("%s: %s, %s since boot, the last %s after it", who, info, words.Count(count[k], "time", "times"), words.Short(last[k].SinceBoot))
		if info.Action == xid.Ignore {
			all = append(all, one(name, OK, fact+"; the fault of a program", "")...)
			continue
		}
		all = append(all, Finding{name, Warn, fact, strings.ReplaceAll(info.Fix, "INDEX", uuid)})
	}
	if len(all) == 0 {
		return one(name, OK, "none in the kernel's log", "")
	}
	return all
}

// topology tells of replicas whose GPUs talk to each other over a slow path:
// every layer of every token crosses it.
func topology(f Facts) []Finding {
	const name = "topology"
	var all []Finding
	for _, g := range f.GPU.Groups {
		if len(g) < 2 {
			continue
		}
		worst := farthest(f.GPU.Inventory, g)
		indices := strings.Trim(strings.ReplaceAll(fmt.Sprint(g.Indices()), " ", ","), "[]")
		switch {
		case worst.Level == gpu.LevelUnknown && worst.NVLinks == 0:
			continue
		case worst.NVLinks > 0:
			all = append(all, Finding{name, OK, fmt.Sprintf("GPUs %s share %d NVLinks", indices, worst.NVLinks), ""})
		case worst.Level < gpu.LevelHostBridge:
			all = append(all, Finding{name, OK, fmt.Sprintf("GPUs %s are at most %s apart", indices, worst.Level), ""})
		default:
			path := "through the host bridge (" + worst.Level.String() + ")"
			if worst.Level == gpu.LevelSystem {
				path = "across NUMA nodes (SYS)"
			}
			all = append(all, Finding{name, Warn, fmt.Sprintf("GPUs %s of one replica talk %s: tensor parallelism waits for it at every layer", indices, path),
				fmt.Sprintf("`--tp 1` where the model fits on one GPU, else --gpus that `nvidia-smi topo -m` shows closer than %s", worst.Level)})
		}
	}
	return all
}

// farthest is the slowest link of a group. A pair with NVLinks is nearer than
// any without.
func farthest(inv gpu.Inventory, g gpu.Group) gpu.Link {
	var worst gpu.Link
	first := true
	for i, a := range g {
		for _, b := range g[i+1:] {
			l := inv.Between(a.Index, b.Index)
			if first || slower(l, worst) {
				worst, first = l, false
			}
		}
	}
	return worst
}

func slower(a, b gpu.Link) bool {
	if (a.NVLinks > 0) != (b.NVLinks > 0) {
		return b.NVLinks > 0
	}
	if a.NVLinks != b.NVLinks {
		return a.NVLinks < b.NVLinks
	}
	return a.Level > b.Level
}
