package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/service"
	"github.com/lm-warden/warden/cmd/internal/service/servicetest"
)

// What systemd is told over a life: ready with the first replica, signs of
// life, who takes over, and the stop.
func TestNotifiesSystemd(t *testing.T) {
	home := newHome(t)
	n := servicetest.Listen(t, home)
	env := []string{"NOTIFY_SOCKET=" + n.Path, "WATCHDOG_USEC=600000"}
	w := launchWith(t, home, env, "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0")
	n.Expect("READY=1")
	if !slices.Contains(n.Seen, "STATUS=0/1 ready") {
		t.Errorf("READY=1 without the states before: %q", n.Seen)
	}
	n.Expect("WATCHDOG=1")
	w.waitFor(allReady)
	if out, code := w.runCommand("upgrade"); code != 0 {
		t.Fatalf("upgrade: %d\n%s", code, out)
	}
	v, err := w.client.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.Expect(fmt.Sprintf("MAINPID=%d", v.PID))
	n.Expect("READY=1")
	n.Expect("WATCHDOG=1") // the successor's: it is not bound to the first one's WATCHDOG_PID
	if err := syscall.Kill(v.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n.Expect("STOPPING=1")
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
		t.Fatal("warden does not end")
	}
}

func TestWatchdogNeedsNoKey(t *testing.T) {
	home := newHome(t)
	n := servicetest.Listen(t, home)
	w := launchWith(t, home, []string{"NOTIFY_SOCKET=" + n.Path, "WATCHDOG_USEC=600000"},
		"--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0", "--api-keys-file", keysFile(t, home))
	n.Expect("READY=1")
	n.Expect("WATCHDOG=1")
	if out, code := w.runCommand("reap"); code != 0 {
		t.Errorf("reap beside a warden that answers: %d\n%s", code, out)
	}
	w.waitFor(allReady)
}

func keysFile(t *testing.T, home string) string {
	t.Helper()
	path := filepath.Join(home, "keys")
	writeFile(t, path, strings.Repeat("k", 43)+"\n")
	return path
}

// ExecStopPost: after a crash the engines wait for the restart; after a stop
// nothing is left.
func TestReapLeavesEnginesToARestart(t *testing.T) {
	w := start(t, "--dp", "1")
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.done
	before := processesOf(w.home)
	reap := func(result, status string) {
		t.Helper()
		cmd := exec.Command(binary, "reap")
		cmd.Env = append(environment(w.home), "SERVICE_RESULT="+result, "EXIT_STATUS="+status)
		cmd.Dir = w.home
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("reap after %s: %v\n%s", result, err, out)
		}
	}
	reap("signal", "KILL")
	if after := processesOf(w.home); len(after) != len(before) || len(before) == 0 {
		t.Errorf("after a crash %v became %v", before, after)
	}
	reap("timeout", "KILL")
	if left := processesOf(w.home); len(left) > 0 {
		t.Errorf("left after a stop: %v", left)
	}
	reap("success", "0") // nothing to do is no error
}

const unitFile = "../../configs/systemd/warden.service"

func TestUnitFileIsValid(t *testing.T) {
	content, err := os.ReadFile(unitFile)
	if err != nil {
		t.Fatal(err)
	}
	if want := "RestartPreventExitStatus=" + strings.Join(service.NoRestart, " ") + "\n"; !strings.Contains(string(content), want) {
		t.Errorf("the unit has no line %q: reap and systemd would disagree about a restart", want)
	}
	for _, command := range []string{"up", "upgrade", "reap"} { // and their flags
		i := strings.Index(string(content), "/usr/bin/warden "+command+" ")
		if i < 0 {
			t.Fatalf("the unit does not run `warden %s`", command)
		}
		line, _, _ := strings.Cut(string(content[i:]), "\n")
		out, code := runWarden(t, newHome(t), append(strings.Fields(line)[1:], "--help")...)
		if code != 0 || !strings.Contains(out, command) {
			t.Errorf("%s: exit code %d\n%s", line, code, out)
		}
	}
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("no systemd-analyze on this machine")
	}
	path := filepath.Join(t.TempDir(), "warden.service")
	writeFile(t, path, strings.ReplaceAll(string(content), "/usr/bin/warden", binary))
	out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput()
	if err != nil || len(out) > 0 { // it warns of unknown settings and exits with 0
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}
