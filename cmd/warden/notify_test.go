package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestServiceStateTellsOnceWhatChanged(t *testing.T) {
	begin := time.Unix(1000, 0)
	const extend = "EXTEND_TIMEOUT_USEC=60000000"
	steps := []struct {
		after time.Duration
		facts serviceFacts
		want  []string
	}{
		{0, serviceFacts{0, 2, true}, []string{extend, "STATUS=0/2 ready"}},
		{time.Second, serviceFacts{0, 2, true}, nil},
		{extendEvery, serviceFacts{0, 2, true}, []string{extend}},
		{3 * extendEvery, serviceFacts{0, 2, false}, nil}, // no hope: systemd's limit counts
		{4 * extendEvery, serviceFacts{1, 2, true}, []string{"STATUS=1/2 ready", "READY=1"}},
		{5 * extendEvery, serviceFacts{0, 2, true}, []string{"STATUS=0/2 ready"}}, // all restart: ready stays said
		{6 * extendEvery, serviceFacts{2, 2, false}, []string{"STATUS=2/2 ready"}},
	}
	var s serviceState
	for i, step := range steps {
		var got []string
		got, s = s.next(step.facts, begin.Add(step.after))
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: %q, want %q", i, got, step.want)
		}
	}
}

func TestRestartFollows(t *testing.T) {
	tests := []struct {
		result, status string
		want           bool
	}{
		{"", "", false},
		{"success", "0", false},
		{"timeout", "KILL", false},
		{"signal", "KILL", true},
		{"core-dump", "ABRT", true},
		{"watchdog", "ABRT", true},
		{"oom-kill", "KILL", true},
		{"exit-code", "1", true},
		{"exit-code", "5", true},
		{"exit-code", "4", false},
		{"exit-code", "2", false},
	}
	for _, tt := range tests {
		if got := restartFollows(tt.result, tt.status); got != tt.want {
			t.Errorf("%s %s: %v", tt.result, tt.status, got)
		}
	}
}

// notifySocket is systemd's end of NOTIFY_SOCKET.
type notifySocket struct {
	t    *testing.T
	path string
	conn *net.UnixConn
	seen []string
}

func newNotifySocket(t *testing.T, dir string) *notifySocket {
	t.Helper()
	path := filepath.Join(dir, "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &notifySocket{t: t, path: path, conn: conn}
}

// expect reads until a line with this prefix comes.
func (n *notifySocket) expect(prefix string) string {
	n.t.Helper()
	buf := make([]byte, 4096)
	if err := n.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		n.t.Fatal(err)
	}
	for {
		size, err := n.conn.Read(buf)
		if err != nil {
			n.t.Fatalf("no %s: %v; came %q", prefix, err, n.seen)
		}
		lines := strings.Split(string(buf[:size]), "\n")
		n.seen = append(n.seen, lines...)
		for _, line := range lines {
			if strings.HasPrefix(line, prefix) {
				return line
			}
		}
	}
}

// What systemd is told over a life: ready with the first replica, signs of
// life, who takes over, and the stop.
func TestNotifiesSystemd(t *testing.T) {
	home := newHome(t)
	n := newNotifySocket(t, home)
	env := []string{"NOTIFY_SOCKET=" + n.path, "WATCHDOG_USEC=600000"}
	w := launchWith(t, home, env, "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0")
	n.expect("READY=1")
	if !slices.Contains(n.seen, "STATUS=0/1 ready") {
		t.Errorf("READY=1 without the states before: %q", n.seen)
	}
	n.expect("WATCHDOG=1")
	w.waitFor(allReady)
	if out, code := w.runCommand("upgrade"); code != 0 {
		t.Fatalf("upgrade: %d\n%s", code, out)
	}
	v, err := w.client.Version(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n.expect(fmt.Sprintf("MAINPID=%d", v.PID))
	n.expect("READY=1")
	n.expect("WATCHDOG=1") // the successor's: it is not bound to the first one's WATCHDOG_PID
	if err := syscall.Kill(v.PID, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	n.expect("STOPPING=1")
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
		t.Fatal("warden does not end")
	}
}

// A data path that does not answer starves the watchdog; nothing else does.
func TestWatchdogIsFedByTheDataPath(t *testing.T) {
	n := newNotifySocket(t, newHome(t))
	t.Setenv("NOTIFY_SOCKET", n.path)
	t.Setenv("WATCHDOG_USEC", "150000")
	t.Setenv("WATCHDOG_PID", "")
	var broken atomic.Bool
	broken.Store(true)
	probes := make(chan struct{}, 100)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		probes <- struct{}{}
	}))
	defer api.Close()
	var ready atomic.Int32
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		newService(slog.New(slog.DiscardHandler)).run(ctx, func() serviceFacts {
			return serviceFacts{ready: int(ready.Load()), total: 1}
		}, api.URL)
	})
	for range 3 {
		<-probes
	}
	ready.Store(1)
	n.expect("READY=1")
	if slices.Contains(n.seen, "WATCHDOG=1") {
		t.Errorf("fed while the API failed: %q", n.seen)
	}
	broken.Store(false)
	n.expect("WATCHDOG=1")
	cancel()
	running.Wait()
}

func TestWatchdogNeedsNoKey(t *testing.T) {
	home := newHome(t)
	n := newNotifySocket(t, home)
	w := launchWith(t, home, []string{"NOTIFY_SOCKET=" + n.path, "WATCHDOG_USEC=600000"},
		"--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0", "--api-keys-file", keysFile(t, home))
	n.expect("READY=1")
	n.expect("WATCHDOG=1")
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
	if want := "RestartPreventExitStatus=" + strings.Join(noRestart, " ") + "\n"; !strings.Contains(string(content), want) {
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
