// Package wholefile writes files that a reader finds whole or not at all.
package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path in one step: a reader sees the old or the new content, also after a crash of the
// writer. It does not sync the disk; a crash of the machine may lose or truncate the last write.
func Write(path string, content []byte, mode fs.FileMode) error {
	return replace(path, content, mode, func(*os.File) error { return nil })
}

// WriteSynced is Write, and a crash of the machine does no harm either. It may take the disk long.
func WriteSynced(path string, content []byte, mode fs.FileMode) error {
	return replace(path, content, mode, (*os.File).Sync)
}

func replace(path string, content []byte, mode fs.FileMode, sync func(*os.File) error) error {
	part, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // created 0600
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	if err == nil {
		err = errors.Join(part.Chmod(mode), sync(part))
	}
	if err = errors.Join(err, part.Close()); err == nil {
		err = os.Rename(part.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}
