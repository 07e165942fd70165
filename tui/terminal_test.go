package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary one of the programs below, so that a real process meets a real terminal.
const childEnv = "TUI_TEST_CHILD"

func child(mode string) int {
	switch {
	case mode == "silent":
		_, set := os.LookupEnv("CI")
		fmt.Fprint(os.Stderr, "reached main, CI set: ", set)
		return 0
	case strings.HasPrefix(mode, "live:"):
		return live(strings.TrimPrefix(mode, "live:"))
	}
	return 2
}

// live serves a made-up daemon on a control socket and shows it, as `warden up` does.
func live(dir string) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b := &liveDaemon{bus: events.NewBus(100), affinity: true}
	server, err := control.Listen(control.ServerOptions{Socket: filepath.Join(dir, "s"), Daemon: b, Bus: b.bus})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	})
	client, err := control.Dial(ctx, server.Socket())
	if err == nil {
		theme, themeErr := NamedTheme("dark", false)
		var result Result
		result, err = Run(ctx, client, Options{Mode: Up, Theme: theme})
		err = errors.Join(err, themeErr)
		client.Close()
		fmt.Println("action", result.Action)
	}
	cancel()
	serving.Wait()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// liveDaemon is a daemon whose affinity can really be turned off.
type liveDaemon struct {
	mu       sync.Mutex
	affinity bool
	bus      *events.Bus
}

func (b *liveDaemon) Status() control.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := now(status(3, control.StateReady))
	s.StartedAt = s.Now.Add(-time.Minute)
	s.Simulated = true
	s.Models[0].Affinity = b.affinity
	return s
}

func (b *liveDaemon) Version() control.Version        { return control.Version{PID: os.Getpid()} }
func (b *liveDaemon) Config() (control.Config, error) { return control.Config("{}"), nil }

func (b *liveDaemon) Logs(ctx context.Context, q control.LogQuery) iter.Seq2[control.LogLine, error] {
	return func(yield func(control.LogLine, error) bool) {
		if yield(control.LogLine{Replica: q.Replicas[0], Text: "a line of " + q.Replicas[0]}, nil) && q.Follow {
			<-ctx.Done()
		}
	}
}

func (b *liveDaemon) SetAffinity(_ context.Context, model string, on bool) (control.AffinityChange, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.affinity = on
	b.bus.Publish(events.Event{Kind: events.KindAffinity, Model: model, Text: "affinity was turned off"})
	return control.AffinityChange{Model: model, Old: control.PolicyAffinity, New: control.PolicyBalance}, nil
}

func (b *liveDaemon) SetPolicy(_ context.Context, model, policy string) (control.AffinityChange, error) {
	return control.AffinityChange{Model: model, Old: control.PolicyAffinity, New: policy}, nil
}

func (b *liveDaemon) SetSpillLimit(context.Context, string, int) (control.SpillChange, error) {
	return control.SpillChange{}, nil
}

func (b *liveDaemon) Replica(_ context.Context, id string, action control.ReplicaAction) (control.Accepted, error) {
	return control.Accepted{Replica: id, Action: action}, nil
}

func (b *liveDaemon) Shutdown(context.Context, control.ShutdownRequest) error { return nil }

// pty opens a terminal that nobody answers on.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("no pty here: %v", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// TestNothingIsAskedBeforeMain is the reason for package quiet: no command may write to a terminal that it does not
// draw on, or wait for it.
func TestNothingIsAskedBeforeMain(t *testing.T) {
	for _, ci := range []string{"", "CI="} {
		master, slave := pty(t)
		ctx, cancel := context.WithTimeout(t.Context(), testTimeout)
		defer cancel()
		var reached bytes.Buffer
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = []string{childEnv + "=silent", "TERM=xterm-256color"}
		if ci != "" {
			cmd.Env = append(cmd.Env, ci)
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, &reached
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // in the foreground of its own terminal
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		slave.Close()
		wrote, err := io.ReadAll(master) // ends with EIO: nobody holds the other side
		if err != nil && !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		if len(wrote) > 0 {
			t.Errorf("the terminal got %q before main", wrote)
		}
		if want := fmt.Sprint("reached main, CI set: ", ci != ""); reached.String() != want {
			t.Errorf("%q, want %q", reached.String(), want)
		}
	}
}

// tmux is a terminal emulator of its own, so that the dashboard meets a real screen.
type tmux struct {
	t      *testing.T
	socket string
}

func (m tmux) run(args ...string) string {
	m.t.Helper()
	out, err := exec.CommandContext(m.t.Context(), "tmux", append([]string{"-S", m.socket, "-f", "/dev/null"}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %v: %v: %s", args, err, out)
	}
	return string(out)
}

// await reads the screen until it holds words; each reading is a process, so this does not spin.
func (m tmux) await(words string) string {
	m.t.Helper()
	deadline := time.Now().Add(testTimeout)
	for {
		screen := m.run("capture-pane", "-p", "-t", "w")
		if strings.Contains(screen, words) {
			return screen
		}
		if time.Now().After(deadline) {
			m.t.Fatalf("%q does not appear:\n%s", words, screen)
		}
	}
}

func TestOnARealScreen(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not installed")
	}
	dir, err := os.MkdirTemp("", "wt") // short: sockets go there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	m := tmux{t, filepath.Join(dir, "tmux")}
	// The shell stays after the dashboard, to show what it leaves behind.
	m.run("new-session", "-d", "-s", "w", "-x", "80", "-y", "24",
		fmt.Sprintf("echo before; %s='live:%s' '%s'; echo left with $?; exec cat", childEnv, dir, os.Args[0]))
	defer m.run("kill-server")

	screen := m.await("3/3 ready")
	for _, want := range []string{"SIMULATED", ">r0  ready", "spill limit 8 (auto)", "q quit"} {
		if !strings.Contains(screen, want) {
			t.Errorf("%q is missing:\n%s", want, screen)
		}
	}
	m.run("send-keys", "-t", "w", "Down", "a")
	m.await("affinity off")
	m.await("affinity was turned off")
	m.run("send-keys", "-t", "w", "l")
	m.await("a line of r1")
	m.run("send-keys", "-t", "w", "Escape")
	m.await("STICKY")
	m.run("send-keys", "-t", "w", "/")
	m.run("set-buffer", "q\x1b[2Jr1")
	m.run("paste-buffer", "-p", "-t", "w") // bracketed, as terminals paste
	m.await("filter: qr1▏")
	m.run("send-keys", "-t", "w", "Home", "DC")
	m.await("filter: ▏r1")
	m.run("send-keys", "-t", "w", "Escape")
	m.await("enter detail")
	m.run("resize-window", "-t", "w", "-x", "140", "-y", "40")
	m.await("LOG r1")
	m.run("resize-window", "-t", "w", "-x", "50", "-y", "10")
	m.await("terminal too small")
	m.run("resize-window", "-t", "w", "-x", "80", "-y", "24")
	m.await("affinity off")
	m.run("send-keys", "-t", "w", "q")
	m.await("stop 3 replicas? [y]es [d]etach [n]o")
	m.run("send-keys", "-t", "w", "y")
	screen = m.await("left with 0")
	if !strings.Contains(screen, "before") || !strings.Contains(screen, "action 1") || strings.Contains(screen, "STICKY") {
		t.Errorf("the shell's screen is not restored:\n%s", screen)
	}
	if cursor := m.run("display-message", "-p", "-t", "w", "#{cursor_flag}"); strings.TrimSpace(cursor) != "1" {
		t.Errorf("the cursor is hidden: %q", cursor)
	}
}
