package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// cgroup is a control group of the engine's own, on machines that let us make one (cgroup v2, delegated): the kernel
// then kills the whole tree in one step, which not even a fork bomb outruns. Everything works without it.
type cgroup struct{ path string }

// newCgroup makes a group below the shim's own. It returns nil where that is not possible, which is common.
func newCgroup(name string) *cgroup {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil
	}
	const root = "/sys/fs/cgroup"
	var fs unix.Statfs_t
	if unix.Statfs(root, &fs) != nil || fs.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil
	}
	return makeCgroup(root, string(own), name)
}

// makeCgroup is newCgroup for a given mount point and content of /proc/self/cgroup.
func makeCgroup(root, own, name string) *cgroup {
	for line := range strings.Lines(own) {
		below, found := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !found {
			continue
		}
		path := filepath.Join(root, below, name)
		if os.Mkdir(path, 0o755) != nil {
			return nil
		}
		return &cgroup{path: path}
	}
	return nil
}

// add moves a process into the group. Its later children are born there.
func (c *cgroup) add(pid int) error {
	return os.WriteFile(filepath.Join(c.path, "cgroup.procs"), fmt.Appendf(nil, "%d", pid), 0)
}

// kill kills every process in the group.
func (c *cgroup) kill() error {
	err := os.WriteFile(filepath.Join(c.path, "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) { // before Linux 5.14
		return nil
	}
	return err
}

// remove removes the group, once it is empty.
func (c *cgroup) remove() error { return os.Remove(c.path) }
