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

// PlanCPU splits cores among dp replicas that run on the CPU; dp 0 is 1. All
// get equally many, in one piece, because replicas of unequal speed would make
// placement by load favour some; what is left over stays for warden and the
// system.
func PlanCPU(dp int, cores []int) ([][]int, error) {
	if dp < 0 {
		return nil, badNumber("--dp", dp)
	}
	dp = max(dp, 1)
	if dp > len(cores) {
		return nil, &PlanError{
			Kind: TooFew,
			What: fmt.Sprintf("`--dp %d` on CPU needs a core for each replica, this process may use %d", dp, len(cores)),
			Fix:  fmt.Sprintf("`--dp %d`", max(len(cores), 1)),
		}
	}
	each := len(cores) / dp
	plan := make([][]int, dp)
	for i := range plan {
		plan[i] = append([]int(nil), cores[i*each:(i+1)*each]...)
	}
	return plan, nil
}
