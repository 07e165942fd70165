// Package host reads what Linux knows about the devices and processes that
// NVML only numbers: sysfs.go the NUMA node of a PCI device, proc.go the name
// and owner of a PID. Everything takes a file system, so tests need no hardware.
package host

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// NormalBusID turns NVML's 00000000:3B:00.0 into sysfs's 0000:3b:00.0: lower
// case and a domain of four digits, more only where it needs more.
func NormalBusID(id string) string {
	id = strings.ToLower(strings.TrimSpace(id))
	text, rest, ok := strings.Cut(id, ":")
	domain, err := strconv.ParseUint(text, 16, 32)
	if !ok || err != nil {
		return id
	}
	return fmt.Sprintf("%04x:%s", domain, rest)
}

// CompareBusID orders as CUDA does: by domain, bus, device. Domains of more
// digits are greater numbers, hence the length first.
func CompareBusID(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// NUMA reads a PCI device's NUMA node and that node's CPUs from sysfs (root
// is /sys). node is -1 and cpus nil when the kernel does not say, which is
// normal on a box with one node.
func NUMA(root fs.FS, busID string) (node int, cpus []int) {
	dir := "bus/pci/devices/" + busID + "/"
	text, err := fs.ReadFile(root, dir+"numa_node")
	if err != nil {
		return -1, nil
	}
	node, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return -1, nil
	}
	text, err = fs.ReadFile(root, dir+"local_cpulist")
	if err != nil {
		return node, nil
	}
	cpus, err = parseCPUList(string(text))
	if err != nil {
		return node, nil
	}
	return node, cpus
}

// maxCPUs bounds a CPU list, so that a damaged "0-4000000000" cannot take all
// memory. Linux's own limit (CONFIG_NR_CPUS) is 8192.
const maxCPUs = 8192

type cpuListError string

func (e cpuListError) Error() string { return "not a CPU list: " + strconv.Quote(string(e)) }

// parseCPUList reads the kernel's list form, "0-3,8,10-11", sorted and without
// duplicates.
func parseCPUList(text string) ([]int, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, nil
	}
	var cpus []int
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, err1 := strconv.ParseUint(first, 10, 16)
		hi, err2 := strconv.ParseUint(last, 10, 16)
		if err1 != nil || err2 != nil || lo > hi || hi >= maxCPUs {
			return nil, cpuListError(text)
		}
		for cpu := lo; cpu <= hi; cpu++ {
			cpus = append(cpus, int(cpu))
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus), nil
}

// Intersect keeps the CPUs that are also in allowed; both are sorted. nil when
// none is left, so that nobody pins to an empty set.
func Intersect(cpus, allowed []int) []int {
	var kept []int
	for _, cpu := range cpus {
		if _, ok := slices.BinarySearch(allowed, cpu); ok {
			kept = append(kept, cpu)
		}
	}
	return kept
}
