package self

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// moveEnv makes the test binary move its own file there and tell its paths.
const moveEnv = "SELF_TEST_MOVE"

func TestMain(m *testing.M) {
	if to := os.Getenv(moveEnv); to != "" {
		file, err := File()
		if err == nil {
			err = os.Rename(file, to)
		}
		if err != nil {
			panic(err)
		}
		moved := Path()
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			panic(err)
		}
		unfinished := Path()
		if err := os.Chmod(file, 0o700); err != nil {
			panic(err)
		}
		os.Stdout.WriteString(file + " " + moved + " " + unfinished + " " + Path())
		return
	}
	os.Exit(m.Run())
}

// Whoever keeps the old program under another name and puts a new one in its
// place gets the new one by an upgrade; until then all that starts is the old one.
func TestMovedProgram(t *testing.T) {
	content, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "warden")
	if err := os.WriteFile(file, content, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(file)
	cmd.Env = append(os.Environ(), moveEnv+"="+file+".old")
	out, err := cmd.Output()
	if want := file + " /proc/self/exe /proc/self/exe /proc/self/exe"; err != nil || string(out) != want {
		t.Errorf("%q, want %q: %v", out, want, err)
	}
}

func TestWithFlag(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "up --leash",
		"up":                          "up --leash",
		"--name a up -d -- --seed up": "--name a up --leash -d -- --seed up",
	} {
		given := strings.Fields(args)
		if got := strings.Join(WithFlag(given, "--leash"), " "); got != want {
			t.Errorf("%q became %q, want %q", args, got, want)
		}
		if now := strings.Join(given, " "); now != args {
			t.Errorf("the arguments themselves became %q", now)
		}
	}
}
