// Package overlay lays the models that a command line names over those of the
// configuration.
package overlay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/configs"
)

// Models is what the flags of a command line say of models.
type Models struct {
	Names      []string // --model; nil leaves the configured ones
	DP, TP     int
	GPUs       []int
	MaxNumSeqs int
	KVOffload  string
	SpillLimit string
	Affinity   string
	Demo       bool     // a model to show, where none is named
	EngineArgs []string // behind --
	// Changed says whether a flag was given; nil = none was.
	Changed func(flag string) bool
}

// Apply changes the models of cfg. Wrong values are wrong use, not a wrong file.
func (o Models) Apply(cfg *configs.Config) error {
	switch {
	case len(o.Names) > 0:
		configured := cfg.Models
		cfg.Models = nil
		for _, name := range o.Names {
			i := slices.IndexFunc(configured, func(m configs.Model) bool { return m.Alias == name || m.Repo == name })
			if i >= 0 {
				cfg.Models = append(cfg.Models, configured[i])
			} else {
				cfg.Models = append(cfg.Models, configs.Model{Alias: name})
			}
		}
	case o.Demo:
		cfg.Models = []configs.Model{{Alias: "qwen3-4b", DP: 4}}
	}
	perModel := []string{"dp", "tp", "gpus", "affinity", "spill-limit", "max-num-seqs", "kv-offload"}
	if len(cfg.Models) > 1 {
		for _, flag := range perModel {
			if o.changed(flag) {
				return exit.Fail(exit.Usage, fmt.Errorf("--%s is for one model, and %d are named", flag, len(cfg.Models)), "set it for each model in a configuration file")
			}
		}
		if len(o.EngineArgs) > 0 {
			return exit.Fail(exit.Usage, errors.New("arguments after -- are for one model, and several are named"), "set args for each model in a configuration file")
		}
		return nil
	}
	for i := range cfg.Models {
		if err := o.applyTo(&cfg.Models[i]); err != nil {
			return err
		}
	}
	return nil
}

// applyTo sets what the flags say of one model.
func (o Models) applyTo(m *configs.Model) error {
	if o.changed("dp") {
		m.DP = o.DP
	}
	if o.changed("tp") {
		m.TP = o.TP
	}
	if o.changed("gpus") {
		m.GPUs = o.GPUs
	}
	if o.Affinity != "" {
		m.Affinity = o.Affinity
	}
	if o.SpillLimit != "" {
		m.SpillLimit = o.SpillLimit
	}
	if o.MaxNumSeqs != 0 {
		m.MaxNumSeqs = o.MaxNumSeqs
	}
	if o.KVOffload != "" {
		m.KVOffload = o.KVOffload
	}
	m.Args = append(m.Args, o.EngineArgs...)
	if o.DP < 0 || o.TP < 0 || o.MaxNumSeqs < 0 {
		return exit.Fail(exit.Usage, errors.New("--dp, --tp and --max-num-seqs must not be negative"), "")
	}
	if _, err := m.Spill(); err != nil {
		return exit.Fail(exit.Usage, fmt.Errorf("--spill-limit: %w", err), "")
	}
	if _, _, err := m.Offload(); err != nil {
		return exit.Fail(exit.Usage, fmt.Errorf("--kv-offload: %w", err), "")
	}
	_, err := configs.ParsePolicy(m.Affinity)
	return exit.Fail(exit.Usage, err, "`--affinity on` or `--affinity off`")
}

func (o Models) changed(flag string) bool { return o.Changed != nil && o.Changed(flag) }
