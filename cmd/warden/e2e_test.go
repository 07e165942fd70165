package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// The tests of this package run the built program, as its user does.
var binary string

func TestMain(m *testing.M) {
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "warden-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "warden")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build warden:", err)
		return 1
	}
	return m.Run()
}

// running is a warden that a test started, in directories of its own.
type running struct {
	t      *testing.T
	home   string
	cmd    *exec.Cmd
	output *syncBuffer
	url    string
	client *control.Client
	done   chan struct{}
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newHome makes the directories of one warden; the path is short because unix
// sockets are.
func newHome(t *testing.T) string {
	t.Helper()
	home, err := os.MkdirTemp("", "we-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(home) })
	return home
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// environment is all that a test's warden inherits.
func environment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_RUNTIME_DIR=" + home, "XDG_STATE_HOME=" + home,
		"XDG_CACHE_HOME=" + home, "XDG_CONFIG_HOME=" + home, "TERM=dumb"}
}

// start runs `warden up` with simulated engines and waits until all are ready.
func start(t *testing.T, flags ...string) *running {
	t.Helper()
	w := launch(t, newHome(t), append([]string{"--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0"}, flags...)...)
	w.waitFor(func(s control.Status) bool {
		for _, r := range s.Replicas {
			if r.State != control.StateReady {
				return false
			}
		}
		return len(s.Replicas) > 0
	})
	return w
}

func launch(t *testing.T, home string, flags ...string) *running {
	t.Helper()
	return launchWith(t, home, nil, flags...)
}

// launchWith starts a warden with more in its environment.
func launchWith(t *testing.T, home string, extraEnv []string, flags ...string) *running {
	t.Helper()
	cmd := upCommand(flags...)
	cmd.Env = append(environment(home), extraEnv...)
	return launchCommand(t, home, cmd)
}

func upCommand(flags ...string) *exec.Cmd {
	return exec.Command(binary, append([]string{"up", "--no-tui", "--progress", "plain"}, flags...)...)
}

// launchCommand starts a command that becomes a warden.
func launchCommand(t *testing.T, home string, cmd *exec.Cmd) *running {
	t.Helper()
	w := &running{t: t, home: home, cmd: cmd, output: &syncBuffer{}, done: make(chan struct{})}
	w.cmd.Dir = home
	w.cmd.Stdout, w.cmd.Stderr = w.output, w.output
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		_ = w.cmd.Wait()
	}()
	t.Cleanup(w.cleanUp)
	w.connect()
	return w
}

// connect dials the control socket as soon as it is there.
func (w *running) connect() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		client, err := control.Dial(ctx, filepath.Join(w.home, "warden", "default", "control.sock"))
		if err == nil {
			w.client = client
			status, err := client.Status(ctx)
			if err != nil {
				w.t.Fatal(err)
			}
			w.url = status.Listen
			return
		}
		select {
		case <-w.done:
			w.t.Fatalf("warden ended while starting:\n%s", w.output)
		case <-ctx.Done():
			w.t.Fatalf("no control socket: %v\n%s", err, w.output)
		case <-tick.C:
		}
	}
}

func (w *running) cleanUp() {
	if w.client != nil {
		w.client.Close()
	}
	select {
	case <-w.done:
	default:
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-w.done:
		case <-time.After(30 * time.Second):
			w.t.Errorf("warden does not end on SIGTERM:\n%s", w.output)
			_ = w.cmd.Process.Kill()
			<-w.done
		}
	}
	w.runCommand("down", "--now")
	if left := processesOf(w.home); len(left) > 0 {
		w.t.Errorf("processes left behind: %v", left)
		for pid := range left {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if w.t.Failed() {
		w.t.Logf("warden said:\n%s", w.output)
	}
}

// waitFor returns the first status that f accepts; the stream of statuses
// brings one a second and one with every change.
func (w *running) waitFor(f func(control.Status) bool) control.Status {
	w.t.Helper()
	return w.waitWithin(60*time.Second, f)
}

func (w *running) waitWithin(limit time.Duration, f func(control.Status) bool) control.Status {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var last control.Status
	for msg, err := range w.client.Watch(ctx) {
		if err != nil {
			break
		}
		if msg.Status != nil {
			if last = *msg.Status; f(last) {
				return last
			}
		}
		if msg.Event != nil { // something changed: do not wait for the next second
			if s, err := w.client.Status(ctx); err == nil {
				if last = s; f(s) {
					return s
				}
			}
		}
	}
	text, _ := json.MarshalIndent(last, "", " ")
	w.t.Fatalf("the awaited status did not come; last:\n%s\n%s", text, w.output)
	return last
}

// runCommand runs another warden command against this one.
func (w *running) runCommand(args ...string) (out string, code int) {
	w.t.Helper()
	return runWarden(w.t, w.home, args...)
}

func runWarden(t *testing.T, home string, args ...string) (out string, code int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env, cmd.Dir = environment(home), home
	content, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("warden %v: %v", args, err)
	}
	return string(content), cmd.ProcessState.ExitCode()
}

// processesOf finds shims, engines and NVML children of a test's warden: their
// command lines name its directory.
func processesOf(home string) map[int]string {
	found := map[int]string{}
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(content, []byte(home)) {
			continue
		}
		var pid int
		fmt.Sscanf(file, "/proc/%d/", &pid)
		if pid != os.Getpid() {
			found[pid] = strings.ReplaceAll(strings.TrimRight(string(content), "\x00"), "\x00", " ")
		}
	}
	return found
}

// answer is what a client saw of one request.
type answer struct {
	code            int
	replica, reason string
	body            string
	err             error
}

// chat sends one chat turn and reads the whole answer.
func (w *running) chat(session, text string, stream bool, maxTokens int) answer {
	body := fmt.Sprintf(`{"model":"qwen3-4b","stream":%v,"max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, stream, maxTokens, text)
	return w.post("/v1/chat/completions", session, body, nil)
}

func (w *running) post(path, session, body string, firstByte func()) answer {
	req, err := http.NewRequest(http.MethodPost, w.url+path, strings.NewReader(body))
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set("X-Session-ID", session)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer resp.Body.Close()
	a := answer{code: resp.StatusCode, replica: resp.Header.Get("X-Warden-Replica"), reason: resp.Header.Get("X-Warden-Reason")}
	first := make([]byte, 1)
	n, err := resp.Body.Read(first)
	if firstByte != nil && n > 0 {
		firstByte()
	}
	rest, restErr := io.ReadAll(resp.Body)
	a.body = string(first[:n]) + string(rest)
	if err != nil && !errors.Is(err, io.EOF) {
		restErr = err
	}
	a.err = restErr
	return a
}
