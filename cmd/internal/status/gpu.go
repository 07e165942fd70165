package status

import (
	"slices"
	"strconv"

	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
)

func (f Facts) gpu(device gpu.Device) control.GPU {
	out := control.GPU{Index: device.Index, UUID: device.UUID, Name: device.ShortName(), Replica: OwnerOf(device, f.Replicas), XIDs: xids(f.XIDs[device.UUID])}
	if a, aside := f.Asides[device.UUID]; aside {
		out.Aside = &control.Aside{Cause: a.Cause, Fix: a.Fix, Since: a.At}
	}
	s, ok := f.Samples[device.UUID]
	if !ok {
		return out
	}
	age := f.Now.Sub(s.At).Seconds()
	out.SampleAgeSeconds, out.UnavailableReason, out.UnavailableFix = &age, s.Err, s.Fix
	out.Utilization, out.PowerWatts, out.TemperatureC, out.Throttled = s.Utilization, s.PowerWatts, s.TemperatureC, s.Throttled
	if s.MemoryTotal > 0 {
		out.MemoryUsedBytes, out.MemoryTotalBytes = &s.MemoryUsed, &s.MemoryTotal
	}
	return out
}

func xids(counts map[int]uint64) map[string]uint64 {
	if len(counts) == 0 {
		return nil
	}
	out := make(map[string]uint64, len(counts))
	for code, n := range counts {
		out[strconv.Itoa(code)] = n
	}
	return out
}

// OwnerOf is the replica that a GPU was given to, "" for none.
func OwnerOf(device gpu.Device, replicas []supervisor.Replica) string {
	for _, r := range replicas {
		if slices.Contains(r.GPUUUIDs, device.UUID) {
			return string(r.ID)
		}
	}
	return ""
}
