package gpu

import (
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAllowedCores(t *testing.T) {
	cores, err := AllowedCores()
	if err != nil {
		t.Fatal(err)
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	if len(cores) != set.Count() || len(cores) == 0 || !slices.IsSorted(cores) {
		t.Errorf("%v, the kernel allows %d", cores, set.Count())
	}
	for _, cpu := range cores {
		if !set.IsSet(cpu) {
			t.Errorf("CPU %d is not allowed", cpu)
		}
	}
}
