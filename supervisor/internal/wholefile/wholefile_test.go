package wholefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestWriteIsWholeOrNotAtAll(t *testing.T) {
	for name, write := range map[string]func(string, []byte, fs.FileMode) error{"unsynced": Write, "synced": WriteSynced} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		for _, content := range []string{"old and long", "new"} {
			if err := write(path, []byte(content), 0o644); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(path); string(got) != content || err != nil {
				t.Errorf("%s: %q, %v", name, got, err)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s: %v, %v", name, info, err)
		}
		if err := write(filepath.Join(dir, "missing", "f"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: missing directory: %v", name, err)
		}
		if err := os.Mkdir(filepath.Join(dir, "d"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := write(filepath.Join(dir, "d"), nil, 0o600); err == nil {
			t.Errorf("%s: a directory was replaced", name)
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
			t.Errorf("%s: left in the directory: %v, %v", name, entries, err)
		}
	}
}
