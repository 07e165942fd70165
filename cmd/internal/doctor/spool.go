package doctor

import (
	"cmp"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/router/payload"
)

// Spool is the directory for large request bodies.
type Spool struct {
	Dir      string
	Chosen   bool // by spool_dir: a start refuses one that cannot be used
	AboveMiB int
	Memory   bool // the file system there is memory
	Err      error
}

// LookAtSpool tries the directory as a large body would use it, and leaves
// nothing there.
func LookAtSpool(cfg configs.Config) Spool {
	s := Spool{Dir: cmp.Or(cfg.SpoolDir, os.TempDir()), Chosen: cfg.SpoolDir != "", AboveMiB: cfg.SpoolAboveMiB}
	s.Err = payload.CheckDir(s.Dir)
	var fs unix.Statfs_t
	if unix.Statfs(s.Dir, &fs) == nil {
		s.Memory = fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.RAMFS_MAGIC
	}
	return s
}

func spool(f Facts) []Finding {
	const name, fix = "spool dir", "`spool_dir` names a directory on a disk that is yours to write, such as /var/tmp"
	s := f.Spool
	switch {
	case s.Dir == "":
		return nil
	case s.Err != nil && s.Chosen:
		return one(name, Fail, s.Err.Error(), fix)
	case s.Err != nil:
		return one(name, Warn, fmt.Sprintf("request bodies above %d MiB stay in memory: %v", s.AboveMiB, s.Err), fix)
	case s.Memory:
		return one(name, Warn, fmt.Sprintf("%s lies in memory, and so do request bodies above %d MiB", s.Dir, s.AboveMiB), fix)
	}
	return one(name, OK, fmt.Sprintf("%s, for request bodies above %d MiB", s.Dir, s.AboveMiB), "")
}
