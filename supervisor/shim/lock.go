package shim

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// errHeld means that another process has the lock.
var errHeld = errors.New("locked by another process")

// lock takes an exclusive lock on a file for as long as the returned file is open, and writes holder into it for
// whoever finds it taken. The kernel lets go when this process ends, however it ends.
func lock(path, holder string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		who, readErr := io.ReadAll(io.LimitReader(file, 1<<10))
		err = errors.Join(fmt.Errorf("held by %s: %w", strings.TrimSpace(string(who)), errHeld), readErr)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
	}
	// The name is for people; the lock holds without it, also on a full disk.
	if file.Truncate(0) == nil {
		_, _ = file.WriteString(holder + "\n")
	}
	return file, nil
}

// lockAll takes the replica's own lock and one for each of its GPUs, so that no two engines share a GPU even when two
// wardens run.
func lockAll(dir string, spec Spec) (locks []*os.File, err error) {
	holder := fmt.Sprintf("replica %s of %s in %s (shim pid %d)", spec.Replica, spec.Model, filepath.Dir(dir), os.Getpid())
	defer func() {
		if err != nil {
			closeAll(locks)
		}
	}()
	own, err := lock(filepath.Join(dir, lockFile), holder)
	if err != nil {
		return nil, explain("another engine of this replica still runs", err)
	}
	locks = append(locks, own)
	if len(spec.GPUUUIDs) == 0 {
		return locks, nil
	}
	if err := os.MkdirAll(spec.LockDir, 0o700); err != nil {
		return locks, err
	}
	for _, uuid := range spec.GPUUUIDs {
		gpu, err := lock(filepath.Join(spec.LockDir, filepath.Base(uuid)+".lock"), holder)
		if err != nil {
			return locks, explain(fmt.Sprintf("GPU %s runs another engine; stop that one or choose other GPUs", uuid), err)
		}
		locks = append(locks, gpu)
	}
	return locks, nil
}

// explain says what a lock that is held means; any other failure speaks for itself.
func explain(held string, err error) error {
	if errors.Is(err, errHeld) {
		return fmt.Errorf("%s: %w", held, err)
	}
	return err
}
