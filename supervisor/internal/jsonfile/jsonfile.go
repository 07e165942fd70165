// Package jsonfile keeps small values in files that a reader finds whole or not at all.
package jsonfile

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/lm-warden/warden/supervisor/internal/wholefile"
)

// MaxSize bounds what Read accepts, in bytes. The largest file that warden writes holds an environment, and Linux
// bounds that at 2 MiB.
const MaxSize = 4 << 20

// Read decodes the file at path. The error wraps os.ErrNotExist when there is none.
func Read(path string, into any) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.Size() > MaxSize {
		return fmt.Errorf("%s: %d bytes, more than any version of warden writes; delete it", path, info.Size())
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s is damaged; delete it: %w", path, err)
	}
	return nil
}

// Write replaces the file, readable by this user only, as wholefile.Write does.
func Write(path string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(path, append(raw, '\n'), 0o600)
}
