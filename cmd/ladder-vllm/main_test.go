package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/realladder"
)

func TestWrongUse(t *testing.T) {
	for _, tc := range []struct{ args, says string }{
		{"-sessions 2,x", `-sessions "2,x"`},
		{"-sessions 0", "at least 1"},
		{"-rounds -1", "no rounds below 0"},
		{"-from absent.json", "absent.json"},
		{"-from main.go", "main.go is no report"},
		{"-arms nginx", `no arm is called "nginx"`},
	} {
		err := run(t.Context(), strings.Fields(tc.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: error %v, want %q", tc.args, err, tc.says)
		}
	}
}

func TestBothFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, realladder.Report{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ladder-vllm.md", "ladder-vllm.json"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := write(filepath.Join(dir, "absent"), realladder.Report{}); err == nil {
		t.Error("no error for a folder that is not there")
	}
}
