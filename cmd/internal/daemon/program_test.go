package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestProgramIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	path, python := filepath.Join(dir, "vllm"), filepath.Join(dir, "python")
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	t0 := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := &program{path: path}
	steps := []struct {
		name  string
		do    func()
		after time.Duration
		want  string // part of the reason; "" = a start may be tried
	}{
		{"there", func() { write(python, ""); write(path, "#!"+python+" -I\n") }, 0, ""},
		{"taken away", func() { remove(path) }, time.Minute, path + " is not there; "},
		{"still away", func() {}, time.Minute + programPatience - 1, "else they fail from 03:20 on"},
		{"away for too long", func() {}, time.Minute + programPatience, ""},
		{"back", func() { write(path, "#!"+python+" -I\n") }, 2 * programPatience, ""},
		{"its interpreter taken away", func() { remove(python) }, 3 * programPatience, python + ", which runs " + path + ", is not there; "},
		{"no script", func() { write(path, "\x7fELF") }, 3 * programPatience, ""},
		{"empty", func() { write(path, "") }, 3 * programPatience, ""},
	}
	for _, s := range steps {
		s.do()
		why := p.absence(t0.Add(s.after))
		if (why == "") != (s.want == "") || !strings.Contains(why, s.want) {
			t.Errorf("%s: %q, want %q", s.name, why, s.want)
		}
	}
}
