package setup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/cpu"
	"golang.org/x/sys/unix"
)

const gigabyte = 1e9

// room that a device's environment takes while it is made: 6.2 GB installed
// for the CPU and about 9 GB for CUDA, plus downloads that are unpacked.
var room = map[string]uint64{CPU: 10 * gigabyte, CUDA: 15 * gigabyte}

// minRoom is asked for even when most of an environment is already there.
const minRoom = 1 * gigabyte

// numaLibrary is linked by vLLM's CPU build and not part of any wheel.
var numaLibrary = []string{
	"/usr/lib/x86_64-linux-gnu/libnuma.so.1", "/usr/lib/aarch64-linux-gnu/libnuma.so.1",
	"/usr/lib64/libnuma.so.1", "/lib64/libnuma.so.1", "/usr/lib/libnuma.so.1",
}

// checkStep finds out everything that can stop a setup before it downloads.
func checkStep(ctx context.Context, b *build, line func(string)) (string, error) {
	free, err := b.checkRoom()
	if err != nil {
		return "", err
	}
	if b.o.Device == CPU {
		err = b.checkCPU()
	} else {
		_, err = cudaBuildFor(b.o.Driver)
	}
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(b.scratch(), 0o700); err != nil {
		return "", err
	}
	if b.install, err = findInstaller(ctx, b.o); err != nil {
		return "", err
	}
	b.python, err = findPython(ctx, b.o, b.install.uv != "")
	if err != nil {
		return "", err
	}
	b.install.learnIndex(ctx, b.o, b.python)
	return fmt.Sprintf("%.0f GB free, Python %s, %s", float64(free)/gigabyte, b.install.version(b.python), b.install.name()), nil
}

func (b *build) checkRoom() (free uint64, err error) {
	free, err = b.o.Free(b.o.Dir)
	if err != nil {
		return 0, fmt.Errorf("cannot see how much room %s has: %w", b.o.Dir, err)
	}
	need := room[b.o.Device]
	need -= min(need, dirSize(b.dir))
	need = max(need, minRoom)
	if free < need {
		return 0, fmt.Errorf("%s has %.1f GB free and the installation needs %.1f GB: free some room, or choose another disk with --dir",
			b.o.Dir, float64(free)/gigabyte, float64(need)/gigabyte)
	}
	return free, nil
}

func (b *build) checkCPU() error {
	if runtime.GOARCH == "amd64" && !cpu.X86.HasAVX2 {
		return errors.New("this CPU has no AVX2, which vLLM's CPU build needs: try `warden up --demo`")
	}
	found := false
	for _, path := range numaLibrary {
		found = found || b.o.Exists(path)
	}
	if !found {
		return errors.New("libnuma.so.1 is missing, which vLLM's CPU build needs: install it (Debian and Ubuntu: apt install libnuma1; Fedora: dnf install numactl-libs)")
	}
	if _, err := lookPath(b.o, "lscpu"); err != nil {
		return errors.New("`lscpu` is missing, which vLLM's CPU build calls: install the package util-linux")
	}
	return nil
}

// dirSize is the number of bytes in regular files below dir. What cannot be
// read counts as nothing: the figure only lowers the room asked for.
func dirSize(dir string) uint64 {
	var sum uint64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += uint64(info.Size())
		}
		return nil
	})
	return sum
}

func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return st.Bavail * uint64(st.Bsize), nil
}
