package doctor

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/configs"
)

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
