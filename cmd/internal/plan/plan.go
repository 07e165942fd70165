package plan

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/hostmem"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/self"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/groups"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/ledger"
	"github.com/lm-warden/warden/supervisor/shim/proc"
	"github.com/lm-warden/warden/supervisor/vllm"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
	"github.com/lm-warden/warden/supervisor/vllm/tune"
)

// Model is a model and the replicas it gets on this machine.
type Model struct {
	configs.Model
	SpillAt int // requests; 0 = auto
	Install vllm.Install
	Engine  *vllm.Engine
	Specs   []supervisor.Spec
	// Tuned are the engines' settings with their reasons. KVTokenBytes is the KV
	// cache of one token and WeightsBytes that of the weights, both over a
	// replica's GPUs; 0 unknown.
	Tuned        tune.Decision
	KVTokenBytes int
	WeightsBytes uint64
	// Unkept is, on the first model, why the settings could not be noted for the
	// next warden, which then decides anew.
	Unkept error
}

// TierFlag makes the KV cache's second tier.
const TierFlag = "--kv-offloading-size"

// HostTokens is what the second tier of one replica of a model holds, as far as
// it is known; 0 without one, also when the engine refused its flag.
func HostTokens(models []Model, alias string) int {
	for _, m := range models {
		if m.Alias == alias && !slices.Contains(m.Engine.Refused(), TierFlag) {
			return m.Tuned.Tier.Tokens
		}
	}
	return 0
}

// Place is where one replica runs.
type Place struct {
	group gpu.Group
	cpus  []int
}

// GPUs are the devices of the replica; none on a machine that serves on cores.
func (p Place) GPUs() gpu.Group { return p.group }

// Models gives every model its devices, models that name their GPUs first.
func Models(cfg configs.Config, inv gpu.Inventory, runtime string) ([]Model, error) {
	catalogue := configs.Merge(configs.Builtin(), cfg.Catalogue)
	models := make([]Model, len(cfg.Models))
	for i, m := range cfg.Models {
		filled, err := m.WithDefaults(catalogue)
		if err != nil {
			return nil, exit.Fail(exit.Usage, err, "")
		}
		if err := vllm.CheckArgs(filled.Args); err != nil {
			return nil, exit.Fail(exit.Usage, err, "")
		}
		if cfg.Engine.Device == configs.DeviceCUDA {
			if err := checkFits(filled, catalogue, inv); err != nil {
				return nil, err
			}
		}
		spill, _ := filled.Spill() // checked by Config.Validate
		models[i] = Model{Model: filled, SpillAt: spill}
	}
	install, err := InstallFor(cfg)
	if err != nil {
		return nil, err
	}
	left := LeftEngines(runtime)
	places, err := keptPlaces(cfg, models, WithoutOwn(inv, left), left, Faulty(cfg, inv))
	if err != nil {
		return nil, err
	}
	for i := range models {
		models[i].Install = install
	}
	record := filepath.Join(paths.StateDir(cfg.Name), choicesFile)
	if err := tuneAll(cfg, models, places, left, hostmem.Look("/"), record); err != nil {
		return nil, err
	}
	next := 0
	for i := range models {
		for _, place := range places[i] {
			spec, err := models[i].spec(cfg, next, place, runtime)
			if err != nil {
				return nil, err
			}
			if address, ok := leftPort(left, string(spec.ID)); ok && cfg.Engine.Listen == "tcp" {
				spec.Address = address
			}
			models[i].Specs = append(models[i].Specs, spec)
			next++
		}
		models[i].DP = len(models[i].Specs)
	}
	return models, nil
}

// InstallFor finds the engine's program: vLLM, or this one as its simulation.
func InstallFor(cfg configs.Config) (vllm.Install, error) {
	if cfg.Engine.Device == configs.DeviceSimulated {
		return vllm.Install{Argv: self.LastingArgv(self.SimEngine), Version: vllm.NewestTested, Origin: "simulated", Device: cfg.Engine.Device}, nil
	}
	work, _ := os.Getwd() // without one only ./.venv is not looked into
	install, err := vllm.Find(vllm.FindOptions{
		Configured: cfg.Engine.VLLM, VirtualEnv: os.Getenv("VIRTUAL_ENV"), SearchPath: os.Getenv("PATH"),
		WorkDir: work, ManagedDir: paths.ManagedDir(), Device: cfg.Engine.Device,
	})
	if err != nil {
		return install, exit.Fail(exit.Preflight, err, "")
	}
	return install, nil
}

// Faulty are the UUIDs of GPUs that are set aside, in the order in which that
// happened, and of those that would be as soon as something runs there.
func Faulty(cfg configs.Config, inv gpu.Inventory) []string {
	boot, err := proc.BootID()
	if err != nil {
		boot = "" // what was set aside in a boot of unknown name counts
	}
	aside, _ := ledger.ReadAsides(paths.StateDir(cfg.Name), boot) // damaged: the daemon says so
	uuids := slices.SortedFunc(maps.Keys(aside), func(a, b string) int {
		return cmp.Or(aside[a].At.Compare(aside[b].At), cmp.Compare(a, b))
	})
	for _, d := range inv.Devices {
		if _, faulty := d.Fault(); faulty && !slices.Contains(uuids, d.UUID) {
			uuids = append(uuids, d.UUID)
		}
	}
	return uuids
}

// Places chooses the devices of every replica of every model; those to avoid
// are taken last, unless the user names them. Without a number of replicas
// every GPU gets one, also a faulty one: it is parked there with the cause, and
// `warden retry` takes the GPU back into use.
func Places(cfg configs.Config, models []Model, inv gpu.Inventory, avoid []string) ([][]Place, error) {
	places := make([][]Place, len(models))
	if cfg.Engine.Device == configs.DeviceCPU {
		return planCores(models)
	}
	free := make([]int, 0, len(inv.Devices))
	for _, d := range inv.Devices {
		free = append(free, d.Index)
	}
	order := make([]int, 0, len(models)) // those with GPUs of their own first
	for _, named := range []bool{true, false} {
		for i, m := range models {
			if (len(m.GPUs) > 0) == named {
				order = append(order, i)
			}
		}
	}
	for _, i := range order {
		m := models[i]
		request := groups.Request{DP: m.DP, TP: m.TP, GPUs: m.GPUs}
		if len(m.GPUs) == 0 && len(models) > 1 {
			request.GPUs = free
		}
		if len(m.GPUs) == 0 && m.DP > 0 {
			request.Avoid = avoid
		}
		chosen, err := groups.Plan(inv, request)
		if err != nil {
			what, fix := gpu.Describe(err)
			return nil, exit.Fail(exit.Preflight, fmt.Errorf("%s: %s", m.Alias, what), fix)
		}
		for _, g := range chosen {
			places[i] = append(places[i], Place{group: g, cpus: g.CPUs()})
			for _, d := range g {
				free = slices.DeleteFunc(free, func(index int) bool { return index == d.Index })
			}
		}
	}
	return places, nil
}

func planCores(models []Model) ([][]Place, error) {
	cores, err := gpu.AllowedCores()
	if err != nil {
		return nil, err
	}
	total := 0
	for _, m := range models {
		total += max(1, m.DP)
	}
	pieces, err := groups.PlanCores(total, cores)
	if err != nil {
		what, fix := gpu.Describe(err)
		return nil, exit.Fail(exit.Preflight, errors.New(what), fix)
	}
	places := make([][]Place, len(models))
	for i, m := range models {
		for range max(1, m.DP) {
			places[i] = append(places[i], Place{cpus: pieces[0]})
			pieces = pieces[1:]
		}
	}
	return places, nil
}

// replicaID names replica number n of all models together.
func replicaID(n int) string { return fmt.Sprintf("r%d", n) }

// spec describes replica number n.
func (m *Model) spec(cfg configs.Config, n int, place Place, runtime string) (supervisor.Spec, error) {
	id := replicaID(n)
	s := supervisor.Spec{
		ID: supervisor.ReplicaID(id), Model: m.Alias, Repo: m.Repo, ServedNames: []string{m.Alias, m.Repo},
		TP: m.TP, Device: cfg.Engine.Device, CPUs: place.cpus, Env: slices.Clone(m.Env),
		Args: m.engineArgs(cfg), MaxNumSeqs: m.MaxNumSeqs, Engine: m.Engine,
		Address: "unix:" + filepath.Join(runtime, id, "engine.sock"),
	}
	for _, d := range place.group {
		s.GPUIndices = append(s.GPUIndices, d.Index)
		s.GPUUUIDs = append(s.GPUUUIDs, d.UUID)
	}
	if len(place.group) > 0 {
		s.Env = append(place.group.Env(), s.Env...)
	}
	if m.Alias == configs.Tiny && cfg.Engine.Device != configs.DeviceSimulated {
		dir := filepath.Join(paths.StateDir(cfg.Name), "tiny")
		if err := tiny.Write(dir); err != nil {
			return s, fmt.Errorf("cannot write the built-in model: %w", err)
		}
		s.Repo = dir
	}
	if cfg.Engine.Device == configs.DeviceSimulated {
		s.Args = append([]string{"--sim-load", simulatedStart}, s.Args...)
	}
	if cfg.Engine.Listen == "tcp" {
		address, err := freeLoopback()
		if err != nil {
			return s, err
		}
		s.Address = "http://" + address
	}
	return s, nil
}

// simulatedStart is how long a simulated engine loads: enough to see its
// phases.
const simulatedStart = "1s"

// freeLoopback finds a free loopback port. Another program may take it before
// the engine does; the supervisor then sees "address in use" and tries again.
func freeLoopback() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}
