// Package gpuwatch keeps an eye on the GPUs of a running warden: watch.go looks
// once a second, faults.go turns what the driver reports into GPUs that are set
// aside, hold.go keeps starts back while the driver would refuse them, seen.go
// remembers the machine for a warden that starts when it cannot be seen whole.
package gpuwatch

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
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/keep"
	"github.com/lm-warden/warden/supervisor/ledger"
)

// Watch looks at the GPUs once a second. Its loss never touches the data
// path: what it knew grows old and is shown as such.
type Watch struct {
	source    gpu.Source // nil on machines that serve on CPUs
	fake      *gpu.Fake  // the source when it is simulated
	inventory gpu.Inventory
	events    <-chan gpu.XID // nil = the source has none
	hold      *startHold     // nil = starts need no driver
	faults    *faults        // set by Connect, before Run
	log       *slog.Logger

	mu      sync.Mutex
	samples map[string]gpu.Sample // by UUID
	note    string                // why samples are missing
}

// New detects the GPUs that this configuration needs.
func New(ctx context.Context, cfg configs.Config, bus *events.Bus, log *slog.Logger) (*Watch, error) {
	w := &Watch{log: log, samples: map[string]gpu.Sample{}}
	switch cfg.Engine.Device {
	case configs.DeviceCPU:
		w.note = "engines run on the CPU"
		return w, nil
	case configs.DeviceSimulated:
		w.fake = gpu.NewFake(simulatedGPUs(cfg))
		w.source = w.fake
	default:
		child := gpu.NewChild(gpu.ChildOptions{Argv: self.LastingArgv(self.NVML)})
		w.source, w.events = child, child.Events()
		w.hold = newStartHold(func(ctx context.Context) error {
			return gpu.Probe(ctx, gpu.ChildOptions{Argv: self.Argv(self.NVML), StartBudget: probeBudget})
		}, func(began bool, h control.Hold) { w.tellHold(bus, began, h) })
	}
	inv, err := w.source.Detect(ctx)
	if w.fake == nil {
		inv, err = w.recall(inv, err, cfg.Name)
	}
	if err != nil {
		what, fix := gpu.Describe(err)
		return nil, errors.Join(exit.Fail(exit.Preflight, errors.New(what), fix), w.source.Close())
	}
	w.inventory = inv
	return w, nil
}

// recall completes a look by what the warden before saw, and notes a good one
// for the next.
func (w *Watch) recall(inv gpu.Inventory, err error, name string) (gpu.Inventory, error) {
	dir, boot := paths.StateDir(name), BootID(w.log)
	aside, asideErr := ledger.ReadAsides(dir, boot)
	if asideErr != nil {
		w.log.Warn("GPUs that were set aside are not known", "err", asideErr)
	}
	all, failed := withSeen(inv, err, readSeen(dir, boot), plan.LeftEngines(paths.RuntimeDir(name)), aside)
	if failed != nil {
		return all, failed
	}
	if err != nil {
		w.log.Warn("the GPUs are those that were seen last", "err", err)
		w.hold.learn(err)
		return all, nil
	}
	if err := writeSeen(dir, boot, all); err != nil {
		w.log.Warn("the GPUs are not noted for the next warden", "err", err)
	}
	return all, nil
}

// probeBudget bounds each step of a probe. The GPUs are open already, so a
// healthy driver takes a tenth of a second.
const probeBudget = 10 * time.Second

// Connect says who sets GPUs aside. What is broken already is set aside now.
func (w *Watch) Connect(sup *keep.Supervisor, bus *events.Bus) {
	w.faults = &faults{devices: w.inventory.Devices, setAside: sup.SetAside, publish: bus.Publish, log: w.log}
	w.faults.onDevices(time.Now())
}

func (w *Watch) tellHold(bus *events.Bus, began bool, h control.Hold) {
	if began {
		w.log.Error("no engine can start, those that run go on", "reason", h.Cause)
		bus.Publish(events.Event{Kind: events.KindGPU, Text: "starts are held: " + h.Cause + ": " + h.Fix,
			Fields: map[string]string{"cause": h.Cause, "fix": h.Fix}})
		return
	}
	held := time.Since(h.Since).Round(time.Second)
	w.log.Info("engines can start again", "held", held)
	bus.Publish(events.Event{Kind: events.KindGPU, Text: fmt.Sprintf("engines can start again, after %s", held)})
}

// Held says why no engine can start, nil when one can.
func (w *Watch) Held() *control.Hold {
	if w.hold == nil {
		return nil
	}
	return w.hold.latest()
}

// MayStart answers keep.Options.Hold.
func (w *Watch) MayStart(ctx context.Context, uuids []string) (why string) {
	if w.hold == nil {
		return ""
	}
	return w.hold.why(ctx, uuids)
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

// SimulateLoad lets the simulated GPUs do what their replicas do: hold most of
// their memory while an engine runs, compute while it has requests.
func (w *Watch) SimulateLoad(replicas func() []supervisor.Replica) {
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

// Run samples until ctx ends.
func (w *Watch) Run(ctx context.Context, bus *events.Bus) {
	if w.source == nil {
		return
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	if w.hold != nil {
		beside.Go(func() { w.hold.watch(ctx) })
	}
	beside.Go(func() { w.followXIDs(ctx) })
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	w.sample(ctx, bus)
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			w.sample(ctx, bus)
		}
	}
}

// followXIDs acts on what the driver reports, also while a look at a GPU that
// failed takes its time, until ctx ends or nothing more can come.
func (w *Watch) followXIDs(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case x, more := <-w.events:
			if !more {
				return
			}
			w.faults.onXID(x)
		}
	}
}

func (w *Watch) sample(ctx context.Context, bus *events.Bus) {
	samples, err := w.source.Sample(ctx)
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	if err == nil {
		samples = gpu.WithMissing(samples, w.inventory.Devices, now)
	} else {
		samples = gpu.AllLost(err, w.inventory.Devices, now)
	}
	w.faults.onSamples(samples)
	w.keep(samples, err, bus)
}

// keep remembers a look, and tells when looks begin or cease to fail.
func (w *Watch) keep(samples []gpu.Sample, err error, bus *events.Bus) {
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
			if w.hold != nil {
				w.hold.hurry()
			}
		} else {
			bus.Publish(events.Event{Kind: events.KindGPU, Text: "GPU data is back"})
		}
	}
	for _, s := range samples {
		w.samples[s.UUID] = s
	}
}

// Latest returns the last sample of each GPU, and why they are missing or old.
func (w *Watch) Latest() (map[string]gpu.Sample, string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.samples), w.note
}

// Free is the free memory of these GPUs in bytes, read now.
func (w *Watch) Free(ctx context.Context, uuids []string) (free uint64, known bool) {
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

func (w *Watch) Close() error {
	if w.source == nil {
		return nil
	}
	return w.source.Close()
}

// Inventory is what was found when the watch began.
func (w *Watch) Inventory() gpu.Inventory { return w.inventory }

// XIDs counts the driver's reports of faults of a GPU, by their code.
func (w *Watch) XIDs(uuid string) map[int]uint64 { return w.faults.counted(uuid) }
