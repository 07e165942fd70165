package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/vllm/tune"
)

// choicesFile, in the state directory, holds what was decided for the engines
// that run now or ran last.
const choicesFile = "settings.json"

// choice is a decision and what it was an answer to.
type choice struct {
	Asked    string        `json:"asked"`
	Decision tune.Decision `json:"decision"`
}

// choices are by alias.
type choices map[string]choice

// asked sums up what of a decision the user and the machine's make decide, not
// the moment: while it is the same, running engines keep their settings.
func (m *Model) asked(cfg configs.Config, f tune.Facts) string {
	return strings.Join([]string{
		f.Version, cfg.Engine.Device, m.Repo, m.KVOffload, fmt.Sprint(m.MaxNumSeqs, m.TP, f.Replicas, f.GPUMemory, f.ComputeCap),
		strings.Join(m.engineArgs(cfg), " "),
	}, "|")
}

// readChoices returns what was kept; nothing when it cannot be read: it is then
// decided anew.
func readChoices(path string) choices {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var c choices
	if json.Unmarshal(content, &c) != nil {
		return nil
	}
	return c
}

// write replaces the file at once, so that it is always whole.
func (c choices) write(path string) error {
	content, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := paths.Replace(path, content); err != nil {
		return fmt.Errorf("cannot keep the engines' settings: %w", err)
	}
	return nil
}
