package main

import (
	"reflect"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/doctor"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/configs"
)

func (a *app) doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: "Check this machine before anything starts", Args: noArgs,
		Long: `Looks at the driver, the GPUs and their faults, vLLM, the models' files and
the room for them, the API's port, keys, certificate and log, limits and
directories, and says what to do about what would not work. It starts and
changes nothing and needs no running warden.
The exit code is 5 when a check fails.`,
		Example: "  warden doctor\n  warden doctor --model qwen3-4b --json",
	}
	var f upFlags
	cmd.Flags().StringSliceVar(&f.Names, "model", nil, "also check this model: a short `NAME`, a repository or a directory; repeatable")
	device := cmd.Flags().String("device", "", "`DEVICE` engines run on: cuda, or cpu for vLLM's CPU build; else as configured")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		f.forConfig = map[string]any{}
		if *device != "" {
			f.forConfig["engine::device"] = *device
		}
		cfg, models, config := a.configFacts(&f)
		findings := doctor.Examine(doctor.Look(cmd.Context(), cfg, models, config))
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

// configFacts reads the configuration. Where it is invalid, the rest of the
// checks goes on with the defaults.
func (a *app) configFacts(f *upFlags) (configs.Config, []plan.Model, doctor.Config) {
	loaded, err := a.loadConfig(f.forConfig)
	cfg := loaded.Config
	if err == nil {
		err = f.Apply(&cfg)
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
