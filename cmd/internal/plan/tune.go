package plan

import (
	"errors"
	"os"
	"slices"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/hostmem"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/shim"
	"github.com/lm-warden/warden/supervisor/vllm"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
	"github.com/lm-warden/warden/supervisor/vllm/tune"
)

// tuneAll decides the settings of every model's engines. Where engines of a
// model still run, what was decided for them stays, as long as what the user
// asks for does: free memory differs from one start to the next, and engines
// with another command line could not be adopted.
func tuneAll(cfg configs.Config, models []Model, places [][]Place, left []shim.State, memory hostmem.Memory, record string) error {
	kept := readChoices(record)
	next := choices{}
	for i := range models {
		m := &models[i]
		facts := m.facts(cfg, places[i], count(places), memory)
		asked := m.asked(cfg, facts)
		c, known := kept[m.Alias]
		runs := slices.ContainsFunc(left, func(s shim.State) bool { return s.Model == m.Alias })
		if !known || !runs || c.Asked != asked {
			decision, err := tune.Decide(facts)
			var none *tune.NoTierError
			switch {
			case errors.As(err, &none):
				return exit.Fail(exit.Preflight, none, none.Hint())
			case err != nil:
				return err
			}
			c = choice{Asked: asked, Decision: decision}
		}
		next[m.Alias] = c
		m.Tuned, m.MaxNumSeqs = c.Decision, c.Decision.MaxNumSeqs
		m.KVTokenBytes, m.WeightsBytes = facts.KVBytes(), facts.WeightsBytes
		m.Engine = vllm.New(m.Install, vllm.Options{Settings: m.Tuned.Arguments()})
	}
	if err := next.write(record); err != nil && len(models) > 0 {
		models[0].Unkept = err // no reason not to start
	}
	return nil
}

// Preview decides the settings of models that have been given places, as a start
// without engines left over would. Nothing is kept.
func Preview(cfg configs.Config, models []Model, places [][]Place, install vllm.Install) error {
	memory := hostmem.Look("/")
	for i := range models {
		m := &models[i]
		m.Install = install
		facts := m.facts(cfg, places[i], count(places), memory)
		decision, err := tune.Decide(facts)
		if err != nil {
			return err
		}
		m.Tuned, m.KVTokenBytes = decision, facts.KVBytes()
	}
	return nil
}

// count is how many replicas there are in all.
func count(places [][]Place) int {
	total := 0
	for _, p := range places {
		total += len(p)
	}
	return total
}

// platforms by configured device.
var platforms = map[string]tune.Platform{
	configs.DeviceCUDA: tune.CUDA, configs.DeviceCPU: tune.CPU, configs.DeviceSimulated: tune.Simulated,
}

// facts gathers what the rules look at; the catalogue tells of models whose files
// are not here yet.
func (m *Model) facts(cfg configs.Config, places []Place, replicas int, memory hostmem.Memory) tune.Facts {
	args := m.engineArgs(cfg)
	gib, off, _ := m.Offload() // checked by Config.Validate
	f := tune.Facts{
		Version: m.Install.Version, Platform: platforms[cfg.Engine.Device], TP: m.TP, Replicas: replicas,
		Args:       func(flag string) (string, bool) { return vllm.Argument(args, flag) },
		MaxNumSeqs: m.MaxNumSeqs, Offload: tune.Offloading{Off: off, GiB: gib},
		Host: tune.Host{Free: memory.Free, Shm: memory.Shm},
	}
	if entry, err := configs.Lookup(configs.Merge(configs.Builtin(), cfg.Catalogue), m.Alias); err == nil && entry.Repo == m.Repo {
		f.KVPerToken, f.WeightsBytes = entry.KVBytesPerToken, uint64(entry.WeightsGB*1e9)
	}
	if dir := vllm.ModelDir(m.Repo, m.Args, append(os.Environ(), m.Env...)); dir != "" {
		if model, err := tune.ReadModel(dir); err == nil { // else vLLM will say what is wrong with it
			f.Model = model
		}
		if bytes := vllm.WeightsBytes(dir); bytes > 0 {
			f.WeightsBytes = bytes
		}
	}
	if slices.ContainsFunc(m.Args, shrinks) {
		f.WeightsBytes = 0 // in memory they differ from those on disk
	}
	for _, p := range places {
		for _, d := range p.group {
			addGPU(&f, d)
		}
	}
	return f
}

// engineArgs are those that the user, the catalogue or the built-in model give.
func (m *Model) engineArgs(cfg configs.Config) []string {
	if m.Alias == configs.Tiny && cfg.Engine.Device != configs.DeviceSimulated {
		return append(tiny.Args(), m.Args...)
	}
	return m.Args
}

// addGPU keeps the least of what the replicas' GPUs are: they all get the same
// settings.
func addGPU(f *tune.Facts, d gpu.Device) {
	if f.GPUMemory == 0 || d.Memory < f.GPUMemory {
		f.GPUMemory = d.Memory
	}
	if f.ComputeCap == [2]int{} || slices.Compare(d.ComputeCap[:], f.ComputeCap[:]) < 0 {
		f.ComputeCap = d.ComputeCap
	}
}
