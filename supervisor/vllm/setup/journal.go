package setup

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lm-warden/warden/supervisor/internal/wholefile"
)

// JournalName is the file inside an environment that marks it as warden's and
// says how far it got.
const JournalName = "warden-setup.json"

// Journal is what is known about an environment. Complete is set only after
// the last check.
type Journal struct {
	Schema     int       `json:"schema"`
	Device     string    `json:"device"`
	Version    string    `json:"version"`          // asked for
	Found      string    `json:"found,omitempty"`  // as `vllm --version` printed it
	Python     string    `json:"python,omitempty"` // such as "3.12"
	Torch      string    `json:"torch,omitempty"`
	CUDA       string    `json:"cuda,omitempty"` // that torch was built for
	Steps      []string  `json:"steps"`
	Complete   bool      `json:"complete"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
}

const journalSchema = 1

func (j *Journal) has(step string) bool { return slices.Contains(j.Steps, step) }

func (j *Journal) drop(step string) {
	j.Steps = slices.DeleteFunc(j.Steps, func(s string) bool { return s == step })
}

func readJournal(dir string) (Journal, error) {
	path := filepath.Join(dir, JournalName)
	raw, err := os.ReadFile(path)
	if err != nil {
		return Journal{}, err
	}
	var j Journal
	if err := json.Unmarshal(raw, &j); err != nil {
		return Journal{}, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if j.Schema != journalSchema {
		return Journal{}, fmt.Errorf("%s has schema %d, this warden knows %d", path, j.Schema, journalSchema)
	}
	return j, nil
}

// writeJournal replaces the journal in one step, so that a reader or a crash
// never meets half of it.
func writeJournal(dir string, j Journal) error {
	j.Schema = journalSchema
	raw, err := json.MarshalIndent(j, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, JournalName), append(raw, '\n'))
}

// writeFile leaves nothing half done, also after a crash of the machine.
func writeFile(path string, data []byte) error { return wholefile.WriteSynced(path, data, 0o644) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// empty reports whether dir is absent or has no entries.
func empty(dir string) bool {
	entries, err := os.ReadDir(dir)
	return err != nil && os.IsNotExist(err) || err == nil && len(entries) == 0
}
