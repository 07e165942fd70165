package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/gpu/groups"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/ledger"
	"github.com/lm-warden/warden/supervisor/shim/proc"
	"github.com/lm-warden/warden/supervisor/vllm"
)

// Look looks at everything that the checks ask about, for the models of a
// configuration; config says how that was read. What one look cannot see does not
// hinder the others.
func Look(ctx context.Context, cfg configs.Config, models []plan.Model, config Config) Facts {
	runtime := paths.RuntimeDir(cfg.Name)
	facts := Facts{
		Config: config, WayIn: LookAtWayIn(cfg), Shm: LookAtShm("/dev/shm"),
		OpenFiles: LookAtOpenFiles(), Memory: LookAtMemory("/"),
		Dirs: dirFacts(cfg.Name), Spool: LookAtSpool(cfg), Socket: Socket{Path: filepath.Join(runtime, paths.LongestSocket), Max: paths.MaxSocketPath},
		Container: LookAtContainer("/", os.LookupEnv),
	}
	facts.Daemon = lookForDaemon(ctx, paths.ControlSocket(cfg.Name))
	left := plan.LeftEngines(runtime)
	for _, s := range left {
		facts.Left = append(facts.Left, Left{Replica: s.Replica, Model: s.Model, PID: s.PID})
	}
	for _, m := range models {
		facts.Models = append(facts.Models, modelFacts(m, configs.Merge(configs.Builtin(), cfg.Catalogue)))
	}
	if _, port, err := net.SplitHostPort(cfg.Listen); err == nil && port != "0" {
		facts.Port = LookAtPort(cfg.Listen)
	}
	var places [][]plan.Place
	if cfg.Engine.Device == configs.DeviceCUDA {
		facts.GPU.Inventory, facts.GPU.Err = plan.Detect(ctx)
		facts.GPU.Inventory = plan.WithoutOwn(facts.GPU.Inventory, left)
		if facts.GPU.Err == nil {
			places = planFacts(&facts.GPU, cfg, models)
		}
		boot, _ := proc.BootID()                                               // unknown: what was noted in an unknown boot, too
		facts.GPU.Aside, _ = ledger.ReadAsides(paths.StateDir(cfg.Name), boot) // a damaged file is the state directory's to say
		facts.Kernel = LookAtKernelLog("/dev/kmsg")
	}
	if cfg.Engine.Device != configs.DeviceSimulated {
		facts.VLLM = vllmFacts(cfg)
	}
	if len(places) == len(models) && facts.VLLM.Err == nil {
		facts.Engines.Err = plan.Preview(cfg, models, places, facts.VLLM.Install)
		facts.Engines.Models = models
	}
	return facts
}

// lookForDaemon waits as long as Dial does: only then is silence told from absence.
func lookForDaemon(ctx context.Context, socket string) Daemon {
	client, err := control.Dial(ctx, socket)
	if err != nil {
		if silent, is := errors.AsType[*control.SilentError](err); is {
			return Daemon{PID: silent.PID, Silent: silent}
		}
		return Daemon{}
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	v, err := client.Version(ctx)
	if err != nil {
		return Daemon{} // it ended since
	}
	d := Daemon{PID: v.PID, Version: v.Version}
	if s, err := client.Status(ctx); err == nil && s.Access != nil {
		d.Access = s.Access.Problem
	}
	return d
}

func modelFacts(m plan.Model, catalogue []configs.Entry) Model {
	facts := Model{
		Alias: m.Alias, TP: m.TP, BuiltIn: m.Alias == configs.Tiny,
		Weights: vllm.FindWeights(m.Repo, m.Args, append(os.Environ(), m.Env...)),
	}
	if entry, err := configs.Lookup(catalogue, m.Alias); err == nil && entry.Repo == m.Repo {
		facts.Bytes = uint64(entry.WeightsGB * 1e9)
	}
	facts.Free, facts.FreeErr = RoomIn(facts.Weights.Dir)
	return facts
}

// planFacts finds places for the wanted replicas, or for a single one where none
// are configured, or says why there are none.
func planFacts(f *GPU, cfg configs.Config, models []plan.Model) [][]plan.Place {
	if len(models) == 0 {
		var err error
		if f.Groups, err = groups.Plan(f.Inventory, groups.Request{}); err != nil {
			what, fix := gpu.Describe(err)
			f.PlanErr, f.PlanFix = errors.New(what), fix
		}
		return nil
	}
	places, err := plan.Places(cfg, models, f.Inventory, plan.Faulty(cfg, f.Inventory))
	f.PlanErr, f.PlanFix = err, exit.HintOf(err)
	for _, ofModel := range places {
		for _, p := range ofModel {
			f.Groups = append(f.Groups, p.GPUs())
		}
	}
	return places
}

func vllmFacts(cfg configs.Config) VLLM {
	install, err := plan.InstallFor(cfg)
	facts := VLLM{Install: install, Err: err, Fix: "name another one: `--vllm /path/to/vllm`, or let warden install it: `warden setup`"}
	var missing *vllm.NotFoundError
	if errors.As(err, &missing) {
		facts.Err = errors.New("none found")
		if len(missing.Refused) > 0 {
			facts.Err = fmt.Errorf("none that can be used: %s", strings.Join(missing.Refused, "; "))
		}
		facts.Fix = missing.Fix()
	}
	return facts
}

// dirFacts looks at the directories that a start writes to.
func dirFacts(name string) []Dir {
	runtime := Dir{Role: "runtime dir", Path: paths.RuntimeDir(name), Fix: "set XDG_RUNTIME_DIR to a directory you can write"}
	runtime.Err = Writable(runtime.Path)
	for _, dir := range []string{filepath.Dir(runtime.Path), runtime.Path} {
		if _, err := paths.OwnDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			runtime.Err, runtime.Fix = err, exit.HintOf(err)
		}
	}
	state := Dir{Role: "state dir", Path: paths.StateDir(name), Fix: "set XDG_STATE_HOME to a directory you can write"}
	state.Err = Writable(state.Path)
	return []Dir{runtime, state}
}
