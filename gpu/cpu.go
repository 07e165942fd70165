package gpu

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// AllowedCores are the CPUs this process may run on, in order: fewer than the
// machine has inside a container or under taskset.
func AllowedCores() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("cannot read which CPUs this process may use: %w", err)
	}
	cores := make([]int, 0, set.Count())
	for cpu := 0; len(cores) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cores = append(cores, cpu)
		}
	}
	return cores, nil
}
