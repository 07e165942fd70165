package gpu

import (
	"context"
	"fmt"
	"time"
)

// Fake is a Source of simulated GPUs, for the demo and for tests. Every name
// says SIMULATED, so that nobody takes its figures for measured ones.
type Fake struct {
	// Load says what a GPU does at a moment; nil = idle. Set it before the
	// first call.
	Load func(index int, now time.Time) Load
	// Now is the clock; nil = time.Now.
	Now func() time.Time

	devices []Device
}

// Load is what one simulated GPU does.
type Load struct {
	MemoryUsed  uint64  // bytes, cut to the card's size
	Utilization float64 // ratio 0-1
}

// The simulated card, about an RTX A4000.
const (
	fakeMemory      = 16 << 30 // bytes
	fakeIdleMemory  = 300 << 20
	fakeIdleWatts   = 15.0
	fakeMaxWatts    = 140.0
	fakeIdleDegrees = 35.0
	fakeMaxDegrees  = 75.0
)

// NewFake makes n simulated GPUs, at most 256.
func NewFake(n int) *Fake {
	f := &Fake{}
	for i := range min(max(n, 0), 256) {
		f.devices = append(f.devices, Device{
			Index:       i,
			UUID:        fmt.Sprintf("GPU-51a1a7ed-0000-4000-8000-%012x", i),
			Name:        "SIMULATED GPU 16GB",
			PCIBusID:    fmt.Sprintf("0000:%02x:00.0", i),
			Memory:      fakeMemory,
			MemoryUsed:  fakeIdleMemory,
			MemoryFree:  fakeMemory - fakeIdleMemory,
			ComputeCap:  [2]int{8, 6},
			NUMANode:    -1,
			ComputeMode: ComputeModeDefault,
		})
	}
	return f
}

// Detect lists the simulated GPUs; every pair shares one PCIe host bridge.
func (f *Fake) Detect(ctx context.Context) (Inventory, error) {
	if err := ctx.Err(); err != nil {
		return Inventory{}, err
	}
	inv := Inventory{Driver: "SIMULATED", CUDA: "SIMULATED"}
	inv.Devices = append(inv.Devices, f.devices...)
	for a := range f.devices {
		for b := a + 1; b < len(f.devices); b++ {
			inv.Links = append(inv.Links, Link{A: a, B: b, Level: LevelHostBridge})
		}
	}
	return inv, nil
}

// Sample reads the load function; power and temperature follow utilization.
func (f *Fake) Sample(ctx context.Context) ([]Sample, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	now := time.Now()
	if f.Now != nil {
		now = f.Now()
	}
	samples := make([]Sample, len(f.devices))
	for i, d := range f.devices {
		load := Load{MemoryUsed: fakeIdleMemory}
		if f.Load != nil {
			load = f.Load(i, now)
		}
		used := min(load.MemoryUsed, d.Memory)
		busy := min(max(load.Utilization, 0), 1)
		samples[i] = Sample{
			UUID: d.UUID, Index: i, At: now,
			MemoryUsed: used, MemoryFree: d.Memory - used, MemoryTotal: d.Memory,
			Utilization:  new(busy),
			PowerWatts:   new(fakeIdleWatts + busy*(fakeMaxWatts-fakeIdleWatts)),
			TemperatureC: new(fakeIdleDegrees + busy*(fakeMaxDegrees-fakeIdleDegrees)),
		}
	}
	return samples, nil
}

// Close does nothing: there is nothing to release.
func (f *Fake) Close() error { return nil }
