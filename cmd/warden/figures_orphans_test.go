package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

// orphanLimit is figure 4's: nothing is left so long after the end.
const orphanLimit = 15 * time.Second

// Figure 4: however warden ends and whatever was killed before, no process of
// it is left, in any shape of the engine's process tree.
func TestFigureNoOrphans(t *testing.T) {
	shapes := []string{"group", "setsid", "double-fork"}
	down := func(w *running) {
		if out, code := w.runCommand("down"); code != 0 {
			w.t.Errorf("down: exit code %d\n%s", code, out)
		}
	}
	interrupt := func(w *running) { _ = w.cmd.Process.Signal(os.Interrupt) }
	engine := func(w *running) control.Replica {
		r, _ := remote.FindReplica(w.waitFor(allReady), "r0")
		return r
	}
	ways := []struct {
		name string
		end  func(w *running)
	}{
		{"down", func(w *running) { engine(w); down(w) }},
		{"one Ctrl-C", func(w *running) { engine(w); interrupt(w) }},
		{"two Ctrl-C", func(w *running) { engine(w); interrupt(w); interrupt(w) }},
		{"engine killed, down", func(w *running) { kill(w.t, engine(w).PID); down(w) }},
		{"its child killed, down", func(w *running) { kill(w.t, coreOf(w.t, w.home, engine(w).PID)); down(w) }},
		{"shim killed, down", func(w *running) { engine(w); kill(w.t, relative(w.t, w.home, "__shim", "/r0")); down(w) }},
		{"warden killed, down", func(w *running) { engine(w); kill(w.t, w.cmd.Process.Pid); <-w.done; down(w) }},
		{"shim and warden killed, down", func(w *running) {
			engine(w)
			kill(w.t, relative(w.t, w.home, "__shim", "/r0"))
			kill(w.t, w.cmd.Process.Pid)
			<-w.done
			down(w)
		}},
		{"start interrupted", func(w *running) { pause(someTime()); interrupt(w) }},
		{"start killed, down", func(w *running) { pause(someTime()); kill(w.t, w.cmd.Process.Pid); <-w.done; down(w) }},
	}
	for round := range rounds(1) {
		for i, way := range ways {
			shape := shapes[(i+round)%len(shapes)]
			t.Run(fmt.Sprintf("%s, %s", way.name, shape), func(t *testing.T) {
				args := []string{"--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0", "--dp", "2", "--drain", "1s",
					"--", "--sim-load", "100ms", "--sim-tree", shape, "--sim-fault", "ignore-term=true"}
				if round%2 == 0 {
					args = args[:len(args)-2]
				}
				w := launch(t, newHome(t), args...)
				way.end(w)
				began := time.Now()
				if err := goneWithin(w.home, orphanLimit); err != nil {
					t.Error(err)
				}
				t.Logf("nothing left after %s", time.Since(began).Round(time.Millisecond))
			})
		}
	}
}

// someTime is a moment of a start.
func someTime() time.Duration { return time.Duration(rand.IntN(500)) * time.Millisecond }

// The same where nobody reaps the dead, as in a container without an init:
// zombies stay for ever there and must count as gone.
func TestFigureNoOrphansWithoutInit(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may make a PID namespace")
	}
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Skip("no unshare(1), which makes the PID namespace")
	}
	home := newHome(t)
	script := filepath.Join(home, "script")
	// sleep becomes process 1 and reaps nobody.
	writeFile(t, script, `
{
	"$1" up -d --demo --demo-sessions 0 --listen 127.0.0.1:0 --dp 2 --progress plain -- --sim-load 100ms --sim-tree double-fork &&
	for shim in $(grep -la __shim /proc/[0-9]*/cmdline | grep -o '[0-9]*' | head -1); do kill -9 $shim; done &&
	"$1" down
	echo "down: $?"
	for stat in /proc/[0-9]*/stat; do echo "left: $(cut -d' ' -f1-3 $stat)"; done
	echo end
} >"$2" 2>&1 &
exec sleep 60
`)
	out := filepath.Join(home, "out")
	cmd := exec.Command(unshare, "--pid", "--fork", "--mount-proc", "--kill-child", "sh", script, binary, out)
	cmd.Env, cmd.Dir = environment(home), home
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(unix.SIGKILL)
		_ = cmd.Wait()
	}()
	var said string
	await(t, time.Minute, "the end of the script", func() bool {
		content, _ := os.ReadFile(out)
		said = string(content)
		return strings.HasSuffix(said, "end\n")
	})
	zombies := 0
	for line := range strings.Lines(said) {
		fields := strings.Fields(strings.TrimPrefix(line, "left: "))
		if !strings.HasPrefix(line, "left: ") || len(fields) != 3 {
			continue
		}
		switch {
		case fields[2] == "Z":
			zombies++
		case strings.Contains(fields[1], "warden") || strings.Contains(fields[1], "SIMULATED"):
			t.Errorf("alive: %s", line)
		}
	}
	t.Logf("%d zombies that nobody reaps", zombies)
	if zombies == 0 || !strings.Contains(said, "down: 0") {
		t.Errorf("the script said:\n%s", said)
	}
}
