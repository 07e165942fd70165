//go:build cgo

package gpu

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// throttleCauses are the clock-reduction bits worth an alarm. The others
// (idle, power cap, application clocks) are everyday life of a busy GPU.
var throttleCauses = []struct {
	bit  uint64
	name string
}{
	{nvml.ClocksThrottleReasonHwSlowdown, "hw_slowdown"},
	{nvml.ClocksEventReasonSwThermalSlowdown, "sw_thermal"},
	{nvml.ClocksThrottleReasonHwThermalSlowdown, "hw_thermal"},
	{nvml.ClocksThrottleReasonHwPowerBrakeSlowdown, "power_brake"},
}

// measure fills in one sample. Only a memory read that fails for another
// reason than "not supported" counts as an error of the GPU; every other
// figure is optional.
func (n *nvmlDriver) measure(h handle, s *Sample) {
	var code int
	s.MemoryUsed, s.MemoryFree, s.MemoryTotal, code = n.memory(h)
	switch code {
	case 0, CodeNotSupported, CodeNoSuchFunction:
	default:
		s.failed(code, "nvmlDeviceGetMemoryInfo")
		return
	}
	s.Recovery = n.recovery(h)
	if use, code := read(n, h.GetUtilizationRates, "nvmlDeviceGetUtilizationRates"); code == 0 {
		s.Utilization = new(float64(use.Gpu) / 100)
	}
	if milliwatts, code := read(n, h.GetPowerUsage, "nvmlDeviceGetPowerUsage"); code == 0 {
		s.PowerWatts = new(float64(milliwatts) / 1000)
	}
	if degrees, code := n.temperature(h); code == 0 {
		s.TemperatureC = new(float64(degrees))
	}
	bits := n.throttleBits(h)
	for _, cause := range throttleCauses {
		if bits&cause.bit != 0 {
			s.Throttled = append(s.Throttled, cause.name)
		}
	}
}

func (n *nvmlDriver) temperature(h handle) (uint32, int) {
	return read(n, func() (uint32, nvml.Return) {
		// Deprecated in favour of a function of driver 570; every driver has
		// this one, and a guard covers the day it goes.
		return h.GetTemperature(nvml.TEMPERATURE_GPU) //nolint:staticcheck
	}, "nvmlDeviceGetTemperature")
}

// throttleBits uses the name of driver 535 and newer, else the old one; 0
// where neither works.
func (n *nvmlDriver) throttleBits(h handle) uint64 {
	if bits, code := read(n, h.GetCurrentClocksEventReasons, "nvmlDeviceGetCurrentClocksEventReasons"); code == 0 {
		return bits
	}
	bits, _ := read(n, func() (uint64, nvml.Return) {
		return h.GetCurrentClocksThrottleReasons() //nolint:staticcheck // the name before driver 535
	}, "nvmlDeviceGetCurrentClocksThrottleReasons")
	return bits
}
