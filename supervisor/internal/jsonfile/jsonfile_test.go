package jsonfile

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWriteIsWholeOrNotAtAll(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	if err := Write(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, func() {}); err == nil {
		t.Error("a function was written")
	}
	if err := Write(filepath.Join(dir, "missing", "f"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	var got map[string]int
	if err := Read(path, &got); err != nil || got["a"] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("left in the directory: %v, %v", entries, err)
	}
}

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	huge, damaged := filepath.Join(dir, "huge"), filepath.Join(dir, "damaged")
	if err := errors.Join(os.WriteFile(huge, nil, 0o600), os.Truncate(huge, MaxSize+1), os.WriteFile(damaged, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	var into any
	for path, want := range map[string]string{huge: "delete it", damaged: "is damaged; delete it", filepath.Join(dir, "none"): "no such file"} {
		if err := Read(path, &into); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
