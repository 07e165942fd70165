package groups

import "fmt"

// PlanCores splits cores among dp replicas that run on the CPU; dp 0 is 1. All
// get equally many, in one piece, because replicas of unequal speed would make
// placement by load favour some; what is left over stays for warden and the
// system.
func PlanCores(dp int, cores []int) ([][]int, error) {
	if dp < 0 {
		return nil, badNumber("--dp", dp)
	}
	dp = max(dp, 1)
	if dp > len(cores) {
		return nil, &Error{
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
