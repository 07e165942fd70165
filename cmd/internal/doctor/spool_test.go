package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/configs"
)

func TestSpool(t *testing.T) {
	wrong := errors.New("read-only")
	for _, c := range []struct {
		spool     Spool
		mark      Mark
		fact, fix string // parts of the text
	}{
		{Spool{Dir: "/d", AboveMiB: 16}, OK, "/d, for request bodies above 16 MiB", ""},
		{Spool{Dir: "/d", AboveMiB: 16, Memory: true}, Warn, "/d lies in memory, and so do request bodies above 16 MiB", "/var/tmp"},
		{Spool{Dir: "/d", AboveMiB: 16, Err: wrong}, Warn, "above 16 MiB stay in memory: read-only", "spool_dir"},
		{Spool{Dir: "/d", AboveMiB: 16, Err: wrong, Chosen: true}, Fail, "read-only", "spool_dir"},
	} {
		got := spool(Facts{Spool: c.spool})
		if len(got) != 1 || got[0].Mark != c.mark || !strings.Contains(got[0].Fact, c.fact) || !strings.Contains(got[0].Fix, c.fix) {
			t.Errorf("%+v: %+v", c.spool, got)
		}
	}
}

// A directory is tried as a body would use it, and what is memory is known.
func TestLookAtSpool(t *testing.T) {
	dir := t.TempDir()
	s := LookAtSpool(configs.Config{SpoolDir: dir, SpoolAboveMiB: 4})
	if s.Err != nil || !s.Chosen || s.Dir != dir || s.AboveMiB != 4 {
		t.Errorf("%+v", s)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("the look made files: %v", left)
	}
	if s := LookAtSpool(configs.Config{}); s.Dir != os.TempDir() || s.Chosen {
		t.Errorf("by default: %+v", s)
	}
	if s := LookAtSpool(configs.Config{SpoolDir: filepath.Join(dir, "none")}); s.Err == nil {
		t.Errorf("none there: %+v", s)
	}
	var fs unix.Statfs_t
	if unix.Statfs("/dev/shm", &fs) != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is no tmpfs here")
	}
	if s := LookAtSpool(configs.Config{SpoolDir: "/dev/shm"}); !s.Memory {
		t.Errorf("a tmpfs: %+v", s)
	}
}
