package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRoomForAStart(t *testing.T) {
	if why := noRoomIn(filepath.Join(t.TempDir(), "none")); why != "" {
		t.Errorf("a directory that the start will make: %q", why)
	}
	if os.Getuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	for options, full := range map[string]bool{
		"size=64k": true, "size=1m": false,
		"size=1m,nr_inodes=1": true, // the root directory is the one
	} {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
			t.Skipf("cannot mount a tmpfs here: %v", err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		if why := noRoomIn(dir); (why != "") != full || (full && !strings.Contains(why, dir+" is full; remove files")) {
			t.Errorf("%s: %q", options, why)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%s: left behind %v, %v", options, left, err)
		}
	}
}
