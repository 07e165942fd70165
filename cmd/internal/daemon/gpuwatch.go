package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
)

// gpuWatch looks at the GPUs once a second. Its loss never touches the data
// path: what it knew grows old and is shown as such.
type gpuWatch struct {
	source    gpu.Source // nil on machines that serve on CPUs
	fake      *gpu.Fake  // the source when it is simulated
	inventory gpu.Inventory
	log       *slog.Logger

	mu      sync.Mutex
	samples map[string]gpu.Sample // by UUID
	note    string                // why samples are missing
}

// watchGPUs detects the GPUs that this configuration needs.
func watchGPUs(ctx context.Context, cfg configs.Config, log *slog.Logger) (*gpuWatch, error) {
	w := &gpuWatch{log: log, samples: map[string]gpu.Sample{}}
	switch cfg.Engine.Device {
	case configs.DeviceCPU:
		w.note = "engines run on the CPU"
		return w, nil
	case configs.DeviceSimulated:
		w.fake = gpu.NewFake(simulatedGPUs(cfg))
		w.source = w.fake
	default:
		w.source = gpu.NewChild(gpu.ChildOptions{Argv: self.Argv(self.NVML)})
	}
	inv, err := w.source.Detect(ctx)
	if err != nil {
		what, fix := gpu.Describe(err)
		return nil, errors.Join(exit.Fail(exit.Preflight, errors.New(what), fix), w.source.Close())
	}
	w.inventory = inv
	return w, nil
}

// simulatedGPUs is how many GPUs a simulation needs: all that its models ask
// for, four where they leave it open.
func simulatedGPUs(cfg configs.Config) int {
	total := 0
	for _, m := range cfg.Models {
		if m.DP == 0 {
			total += 4 * max(1, m.TP)
		} else {
			total += m.DP * max(1, m.TP)
		}
		for _, g := range m.GPUs {
			total = max(total, g+1)
		}
	}
	return total
}

// simulateLoad lets the simulated GPUs do what their replicas do: hold most of
// their memory while an engine runs, compute while it has requests.
func (w *gpuWatch) simulateLoad(replicas func() []supervisor.Replica) {
	if w.fake == nil {
		return
	}
	w.fake.Load = func(index int, _ time.Time) gpu.Load {
		for _, r := range replicas() {
			if slices.Contains(r.GPUIndices, index) && r.PID != 0 {
				return gpu.Load{MemoryUsed: simulatedMemory, Utilization: min(1, float64(r.Stats.Running)/2)}
			}
		}
		return gpu.Load{}
	}
}

// simulatedMemory is 0.92 of 16 GiB, vLLM's default share.
const simulatedMemory = 15_800_000_000

// run samples until ctx ends.
func (w *gpuWatch) run(ctx context.Context, bus *events.Bus) {
	if w.source == nil {
		return
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		w.sample(ctx, bus)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (w *gpuWatch) sample(ctx context.Context, bus *events.Bus) {
	samples, err := w.source.Sample(ctx)
	if ctx.Err() != nil {
		return
	}
	note := ""
	if err != nil {
		what, fix := gpu.Describe(err)
		note = what
		if fix != "" {
			note = fmt.Sprintf("%s (%s)", what, fix)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if note != w.note {
		w.note = note
		if note != "" {
			bus.Publish(events.Event{Kind: events.KindGPU, Text: "GPU data lost: " + note})
			w.log.Warn("GPU data lost", "err", err)
		} else {
			bus.Publish(events.Event{Kind: events.KindGPU, Text: "GPU data is back"})
		}
	}
	for _, s := range samples {
		w.samples[s.UUID] = s
	}
}

// latest returns the last sample of each GPU, and why they are missing or old.
func (w *gpuWatch) latest() (map[string]gpu.Sample, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.samples), w.note
}

// free is the free memory of these GPUs in bytes, read now.
func (w *gpuWatch) free(ctx context.Context, uuids []string) (free uint64, known bool) {
	if w.source == nil || w.fake != nil || len(uuids) == 0 {
		return 0, false // nothing to wait for on the CPU and in a simulation
	}
	samples, err := w.source.Sample(ctx)
	if err != nil {
		return 0, false
	}
	found := 0
	for _, s := range samples {
		for _, uuid := range uuids {
			if s.UUID == uuid && s.Err == "" && s.MemoryTotal > 0 {
				free += s.MemoryFree
				found++
			}
		}
	}
	return free, found == len(uuids)
}

func (w *gpuWatch) close() error {
	if w.source == nil {
		return nil
	}
	return w.source.Close()
}
