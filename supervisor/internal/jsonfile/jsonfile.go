// Package jsonfile keeps small values in files that a reader finds whole or not at all.
package jsonfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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

// Write replaces the file in one step, readable by this user only: a reader sees the old or the new content, also
// after a crash of the writer. It does not sync the disk; a crash of the machine may lose or truncate the last write.
func Write(path string, value any) error {
	raw, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // created 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(append(raw, '\n'))
	err = errors.Join(err, tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
