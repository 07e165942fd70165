package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/supervisor/control"
)

// terminal is a real terminal (tmux) with a shell in it that runs one command
// and then tells how that ended and what state the terminal is in.
type terminal struct {
	t      *testing.T
	home   string
	socket string
}

// atEnd is what the shell says when the command has ended. stty lists "echo"
// and "icanon" with a dash in front when they were left off.
const atEnd = `code=$?; trap '' INT; printf 'exit=%s ' $code; stty -a | tr ' ;' '\n\n' | grep -xE -- '-?(echo|icanon)' | tr '\n' ' '; echo end; cat`

// openTerminal runs warden with these arguments in a terminal of 140x40.
func openTerminal(t *testing.T, home string, args ...string) *terminal {
	t.Helper()
	return openTerminalAt(t, home, commandLine(args))
}

func commandLine(args []string) string {
	line := binary
	for _, a := range args {
		line += " '" + a + "'"
	}
	return line
}

// openTerminalAt runs a command line of the shell.
func openTerminalAt(t *testing.T, home, line string) *terminal {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("no tmux, which is the terminal of this test")
	}
	term := &terminal{t: t, home: home, socket: filepath.Join(home, "tmux")}
	script := filepath.Join(home, "run.sh")
	if err := os.WriteFile(script, []byte("trap : INT\n"+line+"\n"+atEnd+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"env", "-i"}
	for _, v := range environment(home) {
		if !strings.HasPrefix(v, "TERM=") {
			env = append(env, v)
		}
	}
	env = append(env, "TERM=screen-256color", "LANG=C.UTF-8", "sh", script)
	term.tmux(append([]string{"-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", "40"}, env...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the terminal shows:\n%s", term.screen())
		}
		_ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() // it may have ended
		until(t, 10*time.Second, "the terminal to close", func() bool { return len(processesOf(home)) == len(wardenProcesses(home)) })
	})
	return term
}

func (term *terminal) tmux(args ...string) string {
	term.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-u", "-S", term.socket}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		term.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// screen is the text on it, without the echo of Ctrl-C.
func (term *terminal) screen() string {
	return strings.ReplaceAll(term.tmux("capture-pane", "-p"), "^C", "")
}

func (term *terminal) press(keys ...string) { term.tmux(append([]string{"send-keys"}, keys...)...) }
func (term *terminal) ask(what string) string {
	return strings.TrimSpace(term.tmux("display", "-p", what))
}

// within waits until the screen matches and returns how long that took.
func (term *terminal) within(limit time.Duration, pattern string) time.Duration {
	term.t.Helper()
	re := regexp.MustCompile(pattern)
	return until(term.t, limit, "the screen to show "+pattern, func() bool { return re.MatchString(term.screen()) })
}

// until asks 50 times a second.
func until(t *testing.T, limit time.Duration, what string, done func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		if time.Since(began) > limit {
			t.Fatalf("waited %v for %s", limit, what)
		}
		<-tick.C
	}
	return time.Since(began)
}

// ended asserts that the command has ended with one of the codes and left the
// terminal as it was: letters echo, the cursor shows, the screen is the normal
// one.
func (term *terminal) ended(limit time.Duration, codes string) {
	term.t.Helper()
	term.within(limit, `exit=(`+codes+`) .*end`)
	if !regexp.MustCompile(`exit=\d+ (echo icanon|icanon echo) end`).MatchString(term.screen()) {
		term.t.Error("the terminal was not restored")
	}
	if cursor, alternate := term.ask("#{cursor_flag}"), term.ask("#{alternate_on}"); cursor != "1" || alternate != "0" {
		term.t.Errorf("cursor visible %s (want 1), alternate screen %s (want 0)", cursor, alternate)
	}
}

// nothingLeft asserts that no process of this warden is there. Their command
// lines name its directory; the daemon's does through --config.
func (term *terminal) nothingLeft(limit time.Duration) {
	term.t.Helper()
	until(term.t, limit, "the last process to end", func() bool { return len(wardenProcesses(term.home)) == 0 })
}

// wardenProcesses are those of processesOf that are no terminal.
func wardenProcesses(home string) map[int]string {
	found := processesOf(home)
	for pid, command := range found {
		if strings.HasPrefix(command, "tmux") || strings.HasPrefix(command, "sh ") || strings.HasPrefix(command, "env ") {
			delete(found, pid)
		}
	}
	return found
}

// upFlagsIn are flags of a simulated start whose processes can be found.
func upFlagsIn(t *testing.T, home string, more ...string) []string {
	t.Helper()
	config := filepath.Join(home, "c.yaml")
	if err := os.WriteFile(config, []byte("listen: 127.0.0.1:0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return append([]string{"--config", config, "up", "--demo", "--demo-sessions", "0", "--dp", "2"}, more...)
}

// Ctrl-C twice at any moment of a start: nothing is left, and the terminal is
// as it was.
func TestCtrlCTwiceAtAnyMoment(t *testing.T) {
	for _, moment := range []struct{ name, screen string }{
		{"process", ""}, {"weights", `r0 .*(spawn|weights)`}, {"compile", `r0 .*(compile|graphs)`}, {"dashboard", `STICKY`},
	} {
		t.Run(moment.name, func(t *testing.T) {
			home := newHome(t)
			term := openTerminal(t, home, upFlagsIn(t, home, "--", "--sim-load", "4s")...)
			until(t, 10*time.Second, "the process", func() bool { return len(wardenProcesses(home)) > 0 })
			term.within(30*time.Second, moment.screen)
			term.press("C-c")
			term.press("C-c")
			term.ended(15*time.Second, "0|130")
			term.nothingLeft(15 * time.Second)
		})
	}
}

func TestQuitAndDetachLeavesItRunning(t *testing.T) {
	home := newHome(t)
	term := openTerminal(t, home, upFlagsIn(t, home)...)
	term.within(30*time.Second, `STICKY`)
	term.press("q")
	term.within(5*time.Second, `stop 2 replicas\? .*\[d\]etach`)
	term.press("d")
	term.ended(10*time.Second, "0")
	if out, code := runWarden(t, home, "status"); code != 0 || !strings.Contains(out, "r1") {
		t.Errorf("status after detaching: %d\n%s", code, out)
	}
	if out, code := runWarden(t, home, "down"); code != 0 {
		t.Errorf("down: %d\n%s", code, out)
	}
	term.nothingLeft(15 * time.Second)
}

// A terminal that is closed, or a process that is killed, leaves nothing
// running that nobody asked to go on.
func TestKilledForegroundDrainsTheOneBehind(t *testing.T) {
	home := newHome(t)
	term := openTerminal(t, home, upFlagsIn(t, home)...)
	term.within(30*time.Second, `STICKY`)
	shell, err := strconv.Atoi(term.ask("#{pane_pid}"))
	if err != nil {
		t.Fatal(err)
	}
	front := 0
	for pid, command := range wardenProcesses(home) {
		if strings.Contains(command, " up ") && !strings.Contains(command, "--leash") && parentOf(pid) == shell {
			front = pid
		}
	}
	if front == 0 {
		t.Fatalf("no process in front among %v", wardenProcesses(home))
	}
	if err := syscall.Kill(front, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	term.nothingLeft(45 * time.Second)
	if out, code := runWarden(t, home, "status"); code != exit.NoDaemon {
		t.Errorf("status: %d\n%s", code, out)
	}
}

func parentOf(pid int) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	var parent int
	_, after, _ := strings.Cut(string(content), ") ")
	if fields := strings.Fields(after); len(fields) > 1 {
		parent, _ = strconv.Atoi(fields[1])
	}
	return parent
}

// The live view is drawn on stderr: what goes down a pipe stays clean.
func TestLiveViewWithOutputInAPipe(t *testing.T) {
	home := newHome(t)
	file := filepath.Join(home, "out.txt")
	term := openTerminalAt(t, home, commandLine(upFlagsIn(t, home, "--", "--sim-load", "2s"))+" | tee "+file)
	term.within(30*time.Second, `r0 +GPU 0 .*(weights|compile|graphs)`)
	term.within(30*time.Second, `2 of 2 ready`)
	term.press("C-c")
	term.within(5*time.Second, `stopping: 0 requests in flight, up to 30s; Ctrl-C again to kill`)
	term.ended(30*time.Second, "130") // of tee
	content, err := os.ReadFile(file)
	if err != nil || strings.ContainsRune(string(content), '\x1b') {
		t.Errorf("the pipe got %q, %v", content, err)
	}
	term.nothingLeft(15 * time.Second)
}

// What one person does, another sees in an open dashboard within a second; the
// better of two counts, since the machine of a test may be busy.
func TestAffinityShowsInAnOpenDashboard(t *testing.T) {
	w := start(t, "--dp", "2")
	term := openTerminal(t, w.home, "top")
	term.within(10*time.Second, `2/2 ready`)
	best := time.Hour
	for _, word := range []string{"off", "on"} {
		if out, code := w.runCommand("affinity", word); code != 0 {
			t.Fatalf("affinity %s: %d\n%s", word, code, out)
		}
		took := term.within(10*time.Second, `affinity turned `+word)
		best = min(best, took)
	}
	t.Logf("seen after %v", best)
	if best > time.Second {
		t.Errorf("seen after %v at best, want within 1s", best)
	}
	term.press("q")
	term.ended(5*time.Second, "0")
	w.waitFor(func(s control.Status) bool { return s.State == control.DaemonServing }) // the one who looked leaves nothing behind
}
