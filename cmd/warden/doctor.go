package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/doctor"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/vllm"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check this machine before anything starts", Args: noArgs,
		Long: `Looks at the driver and the GPUs, vLLM, the models' files and the room for
them, the API's port, limits and directories, and says what to do about what
would not work. It starts and changes nothing and needs no running warden.
The exit code is 5 when a check fails.`,
		Example: "  warden doctor\n  warden doctor --model qwen3-4b --json",
	}
	f := upFlags{changedFlags: func(string) bool { return false }}
	cmd.Flags().StringSliceVar(&f.models, "model", nil, "also check this model: a short `NAME`, a repository or a directory; repeatable")
	device := cmd.Flags().String("device", "", "`DEVICE` engines run on: cuda, or cpu for vLLM's CPU build; else as configured")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.forConfig = map[string]any{}
		if *device != "" {
			f.forConfig["engine::device"] = *device
		}
		findings := doctor.Examine(a.facts(cmd.Context(), &f))
		failed := doctor.Failed(findings)
		var err error
		if *asJSON {
			err = a.printJSON(map[string]any{"schema": 1, "ok": !failed, "findings": findings})
		} else {
			err = doctor.Print(a.out, findings)
		}
		if err == nil && failed {
			return &exit.Silent{Code: exit.Preflight}
		}
		return err
	}
	return cmd
}

// facts looks at everything that the checks ask about. What one look cannot see
// does not hinder the others.
func (a *app) facts(ctx context.Context, f *upFlags) doctor.Facts {
	cfg, models, config := a.configFacts(f)
	runtime := paths.RuntimeDir(cfg.Name)
	facts := doctor.Facts{
		Config: config, Shm: doctor.LookAtShm("/dev/shm"),
		OpenFiles: doctor.LookAtOpenFiles(), Memory: doctor.LookAtMemory("/"),
		Dirs: dirFacts(cfg.Name), Socket: doctor.Socket{Path: filepath.Join(runtime, paths.LongestSocket), Max: paths.MaxSocketPath},
		Container: doctor.LookAtContainer("/", os.LookupEnv),
	}
	dialCtx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if client, err := control.Dial(dialCtx, paths.ControlSocket(cfg.Name)); err == nil {
		if v, err := client.Version(dialCtx); err == nil {
			facts.Daemon = doctor.Daemon{PID: v.PID, Version: v.Version}
		}
		client.Close()
	}
	left := plan.LeftEngines(runtime)
	for _, s := range left {
		facts.Left = append(facts.Left, doctor.Left{Replica: s.Replica, Model: s.Model, PID: s.PID})
	}
	for _, m := range models {
		facts.Models = append(facts.Models, modelFacts(m, configs.Merge(configs.Builtin(), cfg.Catalogue)))
	}
	if _, port, err := net.SplitHostPort(cfg.Listen); err == nil && port != "0" {
		facts.Port = doctor.LookAtPort(cfg.Listen)
	}
	if cfg.Engine.Device == configs.DeviceCUDA {
		facts.GPU.Inventory, facts.GPU.Err = a.detect(ctx)
		facts.GPU.Inventory = plan.WithoutOwn(facts.GPU.Inventory, left)
		if facts.GPU.Err == nil {
			facts.GPU.PlanFix, facts.GPU.PlanErr = planFacts(cfg, models, facts.GPU.Inventory)
		}
	}
	if cfg.Engine.Device != configs.DeviceSimulated {
		facts.VLLM = vllmFacts(cfg)
	}
	return facts
}

// configFacts reads the configuration. Where it is invalid, the rest of the
// checks goes on with the defaults.
func (a *app) configFacts(f *upFlags) (configs.Config, []plan.Model, doctor.Config) {
	loaded, err := a.loadConfig(f.forConfig)
	cfg := loaded.Config
	if err == nil {
		err = f.applyModels(&cfg)
	}
	if err == nil {
		err = cfg.Validate()
	}
	facts := doctor.Config{Err: err, Fix: exit.HintOf(err), Files: loaded.Files}
	if facts.Fix == "" {
		facts.Fix = "`warden config show --origin` names where each value comes from"
	}
	if err != nil {
		cfg = configs.Default()
		if a.flags.name != "" {
			cfg.Name = a.flags.name
		}
	}
	facts.Device = cfg.Engine.Device
	defaults := configs.Default().Values()
	for i, v := range cfg.Values() {
		if !reflect.DeepEqual(v.Value, defaults[i].Value) {
			facts.Set++
		}
	}
	var models []plan.Model
	for _, m := range cfg.Models {
		filled, err := m.WithDefaults(configs.Merge(configs.Builtin(), cfg.Catalogue))
		if err != nil { // Validate has found it
			continue
		}
		models = append(models, plan.Model{Model: filled})
	}
	return cfg, models, facts
}

func modelFacts(m plan.Model, catalogue []configs.Entry) doctor.Model {
	facts := doctor.Model{
		Alias: m.Alias, TP: m.TP, BuiltIn: m.Alias == configs.Tiny,
		Weights: vllm.FindWeights(m.Repo, m.Args, append(os.Environ(), m.Env...)),
	}
	if entry, err := configs.Lookup(catalogue, m.Alias); err == nil && entry.Repo == m.Repo {
		facts.Bytes = uint64(entry.WeightsGB * 1e9)
	}
	facts.Free, facts.FreeErr = doctor.RoomIn(facts.Weights.Dir)
	return facts
}

// planFacts says why the wanted replicas, or a single one where none are
// configured, have no place on these GPUs.
func planFacts(cfg configs.Config, models []plan.Model, inv gpu.Inventory) (fix string, err error) {
	if len(models) > 0 {
		_, err = plan.Places(cfg, models, inv)
		return exit.HintOf(err), err
	}
	if _, err = gpu.Plan(inv, gpu.PlanRequest{}); err != nil {
		what, fix := gpu.Describe(err)
		return fix, errors.New(what)
	}
	return "", nil
}

func vllmFacts(cfg configs.Config) doctor.VLLM {
	_, install, err := plan.EngineFor(cfg)
	facts := doctor.VLLM{Install: install, Err: err, Fix: "name another one: `--vllm /path/to/vllm`, or let warden install it: `warden setup`"}
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
func dirFacts(name string) []doctor.Dir {
	runtime := doctor.Dir{Role: "runtime dir", Path: paths.RuntimeDir(name), Fix: "set XDG_RUNTIME_DIR to a directory you can write"}
	runtime.Err = doctor.Writable(runtime.Path)
	for _, dir := range []string{filepath.Dir(runtime.Path), runtime.Path} {
		if _, err := paths.OwnDir(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			runtime.Err, runtime.Fix = err, exit.HintOf(err)
		}
	}
	state := doctor.Dir{Role: "state dir", Path: paths.StateDir(name), Fix: "set XDG_STATE_HOME to a directory you can write"}
	state.Err = doctor.Writable(state.Path)
	return []doctor.Dir{runtime, state}
}
