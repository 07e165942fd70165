package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// Group is the GPUs of one replica, by rising index: one, or tp of them.
type Group []Device

// Env pins a process to the group. Indices, not UUIDs: vLLM parses the entries
// as integers. Without CUDA_DEVICE_ORDER, CUDA numbers the fastest GPU first,
// and index 0 is another card than everywhere else.
func (g Group) Env() []string {
	indices := make([]string, len(g))
	for i, d := range g {
		indices[i] = strconv.Itoa(d.Index)
	}
	return []string{"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=" + strings.Join(indices, ",")}
}

// UUIDs are the identities of the group's GPUs.
func (g Group) UUIDs() []string {
	uuids := make([]string, len(g))
	for i, d := range g {
		uuids[i] = d.UUID
	}
	return uuids
}

// Indices are the group's GPUs in PCI bus order.
func (g Group) Indices() []int {
	indices := make([]int, len(g))
	for i, d := range g {
		indices[i] = d.Index
	}
	return indices
}

// CPUs are those of the NUMA nodes that the group's GPUs hang on, sorted; nil
// when one of them is unknown, because half an answer would starve the rest.
func (g Group) CPUs() []int {
	var cpus []int
	for _, d := range g {
		if d.CPUs == nil {
			return nil
		}
		cpus = append(cpus, d.CPUs...)
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}
