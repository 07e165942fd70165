package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

// A package manager takes the program away and puts another one there, piece by
// piece. What runs goes on with what it was started from.
func TestEnginesRestartWithoutTheProgramsFile(t *testing.T) {
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "warden")
	if err := os.WriteFile(program, content, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := upCommand("--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0")
	cmd.Path, cmd.Args[0] = program, program
	home := newHome(t)
	cmd.Env = environment(home)
	w := launchCommand(t, home, cmd)
	serving := func(generation uint64) control.Replica {
		s := w.waitFor(func(s control.Status) bool {
			now, _ := remote.FindReplica(s, "r0")
			if now.State == control.StateBackoff && now.Restarts > 2 || now.State == control.StateParked {
				t.Fatalf("%s: %s", now.State, now.Note)
			}
			return now.State == control.StateReady && now.Generation >= generation
		})
		r, _ := remote.FindReplica(s, "r0")
		return r
	}
	r := serving(1)
	for _, change := range []func() error{
		func() error { return os.Remove(program) },
		func() error { return os.WriteFile(program, content[:1<<20], 0o700) }, // a part of it is there
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(r.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		r = serving(r.Generation + 1)
	}
}
