package setup

import (
	"fmt"
	"strconv"
	"strings"
)

// cudaBuild is a build of vLLM's CUDA wheel and the driver that it needs.
type cudaBuild struct {
	cuda      string
	minDriver int    // major version, from NVIDIA's CUDA compatibility table
	local     string // version suffix of the wheel; empty for the one on PyPI
	torchTag  string // of the torch index for it
}

// cudaBuilds, newest first. PyPI's wheels have been CUDA 13.0 builds since
// before 0.24 (their metadata requires cu13 packages); the project publishes
// CUDA 12.9 wheels beside them (vllm-project/vllm issues 42756, 43847). Within
// CUDA 12 any driver from 525 on runs them (minor version compatibility).
var cudaBuilds = []cudaBuild{
	{cuda: "13.0", minDriver: 580},
	{cuda: "12.9", minDriver: 525, local: "+cu129", torchTag: "cu129"},
}

func (c cudaBuild) indexes(version string) []string {
	if c.torchTag == "" {
		return nil
	}
	return []string{
		"https://wheels.vllm.ai/" + version + "/" + c.torchTag,
		"https://download.pytorch.org/whl/" + c.torchTag,
	}
}

func cudaBuildFor(driver string) (cudaBuild, error) {
	if driver == "" {
		return cudaBuild{}, fmt.Errorf("no NVIDIA driver found, and vLLM for CUDA needs one from %d on: install it, or try `warden setup --device cpu`",
			cudaBuilds[len(cudaBuilds)-1].minDriver)
	}
	major, err := driverMajor(driver)
	if err != nil {
		return cudaBuild{}, err
	}
	for _, c := range cudaBuilds {
		if major >= c.minDriver {
			return c, nil
		}
	}
	return cudaBuild{}, fmt.Errorf("NVIDIA driver %s is too old for vLLM: install %d or newer", driver, cudaBuilds[0].minDriver)
}

// driverRuns checks the torch that was really installed against the driver.
func driverRuns(driver, cuda string) error {
	if cuda == "" {
		return fmt.Errorf("the installed torch has no CUDA: run `warden setup --fresh`, and check `pip config list` for an index of CPU builds")
	}
	major, err := driverMajor(driver)
	if err != nil {
		return err
	}
	for _, c := range cudaBuilds {
		if sameMajor(cuda, c.cuda) && major < c.minDriver {
			return fmt.Errorf("torch came built for CUDA %s, which needs NVIDIA driver %d; %s is installed: update the driver", cuda, c.minDriver, driver)
		}
	}
	return nil
}

func driverMajor(driver string) (int, error) {
	s, _, _ := strings.Cut(driver, ".")
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, fmt.Errorf("driver version %q is not understood: expected one like 580.65.06", driver)
	}
	return n, nil
}

func sameMajor(a, b string) bool {
	am, _, _ := strings.Cut(a, ".")
	bm, _, _ := strings.Cut(b, ".")
	return am == bm
}
