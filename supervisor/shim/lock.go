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
		err = errors.Join(fmt.Errorf("held by %s", strings.TrimSpace(string(who))), readErr)
	}
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteString(holder + "\n")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
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
		return nil, fmt.Errorf("another engine of this replica still runs: %w", err)
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
			return locks, fmt.Errorf("GPU %s runs another engine; stop that one or choose other GPUs: %w", uuid, err)
		}
		locks = append(locks, gpu)
	}
	return locks, nil
}
