package groups

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/gpu"
)

// Cause is why a GPU cannot be used.
type Cause string

// The causes, in the order they are looked for: the first that holds counts.
const (
	CauseMIG        Cause = "mig"         // partitioned
	CauseProhibited Cause = "prohibited"  // compute mode forbids programs
	CauseCompute    Cause = "compute_cap" // too old
	CauseMemory     Cause = "memory"      // too small
	CauseExclusive  Cause = "exclusive"   // one program allowed, and one is there
	CauseBusy       Cause = "busy"        // too little memory free
)

// Refusal is a GPU that cannot be used now.
type Refusal struct {
	Device gpu.Device
	Cause  Cause
	What   string // "GPU 2 (RTX A4000) has 11.2 of 16 GiB used by pid 998 (python, user ana)"
	Fix    string // what frees it; empty when nothing does
}

// Refusals lists the GPUs that Plan would leave out, so that the caller can
// say so. Unknown indices are Plan's to report.
func Refusals(inv gpu.Inventory, req Request) []Refusal {
	req, err := req.normal()
	if err != nil {
		return nil
	}
	candidates, err := named(inv, req.GPUs)
	if err != nil {
		return nil
	}
	_, refusals := divide(candidates, req)
	return refusals
}

// divide separates usable devices from refused ones.
func divide(devices []gpu.Device, req Request) (usable []gpu.Device, refusals []Refusal) {
	for _, d := range devices {
		if r, refused := refuse(d, req); refused {
			refusals = append(refusals, r)
			continue
		}
		usable = append(usable, d)
	}
	return usable, refusals
}

// refuse finds the first reason why a device cannot be used.
func refuse(d gpu.Device, req Request) (Refusal, bool) {
	r := Refusal{Device: d}
	i := strconv.Itoa(d.Index)
	switch free, known := d.FreeRatio(); {
	case d.MIG:
		r.Cause = CauseMIG
		r.What = d.String() + " is partitioned (MIG): its slices can only be named by UUID, which vLLM does not take"
		r.Fix = "`sudo nvidia-smi -i " + i + " -mig 0`"
	case d.ComputeMode == gpu.ComputeModeProhibited:
		r.Cause = CauseProhibited
		r.What = d.String() + " forbids programs (compute mode PROHIBITED)"
		r.Fix = "`sudo nvidia-smi -i " + i + " -c DEFAULT`"
	case d.ComputeCap != [2]int{} && slices.Compare(d.ComputeCap[:], req.MinCompute[:]) < 0:
		r.Cause = CauseCompute
		r.What = fmt.Sprintf("%s has compute capability %d.%d, the engine needs %d.%d",
			d, d.ComputeCap[0], d.ComputeCap[1], req.MinCompute[0], req.MinCompute[1])
	case d.Memory != 0 && d.Memory < req.MinMemory:
		r.Cause = CauseMemory
		r.What = fmt.Sprintf("%s has %s GiB of memory, the model needs %s", d, gib(d.Memory), gib(req.MinMemory))
	case isExclusive(d.ComputeMode) && len(d.Processes) > 0:
		r.Cause = CauseExclusive
		r.What = fmt.Sprintf("%s admits one program (compute mode %s) and has %s", d, d.ComputeMode, holders(d.Processes))
		r.Fix = "stop it, or `sudo nvidia-smi -i " + i + " -c DEFAULT`"
	case known && free < req.MinFree:
		r.Cause = CauseBusy
		r.What = fmt.Sprintf("%s has %s of %s GiB used by %s", d, gib(d.MemoryUsed), gib(d.Memory), holders(d.Processes))
		r.Fix = stop(d.Processes)
	default:
		return Refusal{}, false
	}
	return r, true
}

func isExclusive(mode string) bool {
	return mode == gpu.ComputeModeExclusiveProcess || mode == gpu.ComputeModeExclusiveThread
}

// maxHolders bounds how many processes a message names.
const maxHolders = 3

// holders names the processes on a GPU, the largest first.
func holders(processes []gpu.Process) string {
	if len(processes) == 0 {
		return "a process that the driver does not name (another container?)"
	}
	sorted := slices.SortedStableFunc(slices.Values(processes), func(a, b gpu.Process) int {
		switch {
		case a.Memory > b.Memory:
			return -1
		case a.Memory < b.Memory:
			return 1
		}
		return a.PID - b.PID
	})
	var names []string
	for _, p := range sorted[:min(len(sorted), maxHolders)] {
		names = append(names, p.String())
	}
	text := strings.Join(names, ", ")
	if more := len(sorted) - maxHolders; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func stop(processes []gpu.Process) string {
	switch len(processes) {
	case 0:
		return "find and stop what uses it: `sudo nvidia-smi`"
	case 1:
		return fmt.Sprintf("stop it: `kill %d`", processes[0].PID)
	}
	return "stop them"
}

// notUsable reports refusals that leave too few GPUs. The fix prefers to go on
// without them, when others are free.
func notUsable(inv gpu.Inventory, req Request, refusals []Refusal) *Error {
	e := &Error{Kind: NotUsable, Refusals: refusals, What: refusals[0].What}
	if more := len(refusals) - 1; more > 0 {
		var others []string
		for _, r := range refusals[1:] {
			others = append(others, strconv.Itoa(r.Device.Index))
		}
		e.What += fmt.Sprintf(" (%s %s cannot be used either)", plural(more, "GPU"), strings.Join(others, ","))
	}
	var fixes []string
	if offer := others(inv, req); offer != "" {
		fixes = append(fixes, offer)
	}
	if refusals[0].Fix != "" {
		fixes = append(fixes, refusals[0].Fix)
	}
	if offer := lessMemory(refusals[0], req); offer != "" {
		fixes = append(fixes, offer)
	}
	e.Fix = strings.Join(fixes, ", or ")
	if e.Fix == "" {
		e.Fix = "a GPU that can run it; `warden gpus` shows what is here"
	}
	return e
}

// others offers the usable GPUs of the whole machine: `--gpus 0,1,3 --dp 3`.
func others(inv gpu.Inventory, req Request) string {
	usable, _ := divide(inv.Devices, req)
	dp := len(usable) / req.TP
	if req.DP > 0 {
		dp = min(dp, req.DP)
	}
	if dp == 0 {
		return ""
	}
	usable = usable[:dp*req.TP]
	return "`--gpus " + joinInts(gpu.Group(usable).Indices()) + " " + numbers(dp, req.TP) + "`"
}

// lessMemory offers a smaller share where the rest of the GPU is still worth
// having: a desktop session takes some per cent, another model most of it.
func lessMemory(r Refusal, req Request) string {
	const worthHaving = 0.6
	free, known := r.Device.FreeRatio()
	if r.Cause != CauseBusy || !known || free < worthHaving || free >= req.MinFree {
		return ""
	}
	// One per cent of slack: what is free now may shrink a little until the
	// engine asks.
	return fmt.Sprintf("`--gpu-memory-utilization %.2f`", float64(int(free*100)-1)/100)
}

// gib writes bytes as GiB with one decimal, none when it is 0.
func gib(bytes uint64) string {
	return strings.TrimSuffix(strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64), ".0")
}
