package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lm-warden/warden/gpu"
)

// GPU is one GPU, whose it is, and how it was when it was last looked at.
type GPU struct {
	gpu.Device
	Replica string         // "" = of none
	Sample  gpu.Sample     // At is zero before the first
	XIDs    map[int]uint64 // faults that the driver reported, by code
	Aside   bool           // not used because of a fault
}

// maxSampleAge is the age from which a sample no longer speaks for the
// present. Its series then end instead of standing still; its age goes on.
const maxSampleAge = 15 * time.Second

// gpus collects the last samples.
type gpus struct {
	descriptions
	o Options

	info, age, used, size, busy, power, temperature, throttled, xids, aside, held family
}

func newGPUs(o Options) *gpus {
	g := &gpus{o: o}
	labels := []string{"gpu", "uuid", "replica"}
	g.info = g.gauge("warden_gpu_info", "What a GPU is called; always 1.", "gpu", "uuid", "name")
	g.age = g.gauge("warden_gpu_sample_age_seconds", "Time since a GPU was last read.", labels...)
	g.used = g.gauge("warden_gpu_memory_used_bytes", "GPU memory in use, by anybody.", labels...)
	g.size = g.gauge("warden_gpu_memory_size_bytes", "GPU memory that the card has.", labels...)
	g.busy = g.gauge("warden_gpu_utilization_ratio", "Part of the time in which a kernel ran.", labels...)
	g.power = g.gauge("warden_gpu_power_watts", "Power draw.", labels...)
	g.temperature = g.gauge("warden_gpu_temperature_celsius", "Temperature of the chip.", labels...)
	g.throttled = g.gauge("warden_gpu_throttled", "1 while heat or the power supply holds the clocks down.", labels...)
	g.xids = g.counter("warden_gpu_xids_total", "Faults that the driver reported, by its XID code.", append(labels, "xid")...)
	g.aside = g.gauge("warden_gpu_set_aside", "1 while a GPU is not used because of a fault.", labels...)
	g.held = g.gauge("warden_starts_held", "1 while the driver would refuse every engine, so that none is started.")
	return g
}

// Collect makes gpus a prometheus.Collector.
func (g *gpus) Collect(to chan<- prometheus.Metric) {
	now := g.o.Now()
	all := g.o.GPUs()
	if len(all) > 0 {
		g.held.send(to, number(g.o.StartsHeld()))
	}
	for _, u := range all {
		index, s := strconv.Itoa(u.Index), u.Sample
		g.info.send(to, 1, index, u.UUID, u.Name)
		labels := []string{index, u.UUID, u.Replica}
		g.aside.send(to, number(u.Aside), labels...)
		for code, n := range u.XIDs {
			g.xids.send(to, float64(n), append(slices.Clone(labels), strconv.Itoa(code))...)
		}
		if s.At.IsZero() {
			continue
		}
		age := now.Sub(s.At)
		g.age.send(to, max(age.Seconds(), 0), labels...)
		if s.Err == "" && age <= maxSampleAge {
			g.sample(to, s, labels)
		}
	}
}

// sample sends what this GPU and its driver measure, and nothing for the rest.
func (g *gpus) sample(to chan<- prometheus.Metric, s gpu.Sample, labels []string) {
	if s.MemoryTotal > 0 {
		g.used.send(to, float64(s.MemoryUsed), labels...)
		g.size.send(to, float64(s.MemoryTotal), labels...)
	}
	for _, m := range []struct {
		family
		value *float64
	}{{g.busy, s.Utilization}, {g.power, s.PowerWatts}, {g.temperature, s.TemperatureC}} {
		if m.value != nil {
			m.send(to, *m.value, labels...)
		}
	}
	g.throttled.send(to, number(len(s.Throttled) > 0), labels...)
}

// number is 1 for yes.
func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

var _ prometheus.Collector = (*gpus)(nil)
