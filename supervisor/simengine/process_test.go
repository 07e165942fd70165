package simengine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain lets the test binary be the engine, as warden is its own.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == hiddenCommand {
		os.Exit(Main(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// engineProcess is one engine under test.
type engineProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	uds   string
	tree  chan struct{} // closed when no process of the tree is left
	ready chan struct{} // closed when it serves
	core  chan int      // EngineCore's pid

	mu  sync.Mutex
	log bytes.Buffer
}

// patience bounds each wait; only a failing test comes near it.
const patience = 30 * time.Second

func startEngine(t *testing.T, args ...string) *engineProcess {
	t.Helper()
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return startEngineAt(t, filepath.Join(dir, "s.sock"), args...)
}

func startEngineAt(t *testing.T, uds string, args ...string) *engineProcess {
	t.Helper()
	e := &engineProcess{t: t, uds: uds, tree: make(chan struct{}), ready: make(chan struct{}), core: make(chan int, 1)}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	base := []string{hiddenCommand, "serve", "org/model", "--uds", uds, "--max-model-len", "auto", "--sim-load", "20ms", "--sim-profile", "instant", "--sim-orphan-limit", "20s"}
	e.cmd = exec.Command(self, append(base, args...)...)
	// All processes of the tree inherit the write end: its end is theirs.
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	e.cmd.Stdout, e.cmd.Stderr = w, w
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := e.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go e.read(r)
	t.Cleanup(e.end)
	return e
}

// end kills what is left of the tree.
func (e *engineProcess) end() {
	select {
	case <-e.tree:
		_ = e.cmd.Wait()
		return
	default:
	}
	_ = syscall.Kill(-e.cmd.Process.Pid, syscall.SIGKILL)
	select {
	case pid := <-e.core: // also where it left the group
		_ = syscall.Kill(pid, syscall.SIGKILL)
	default:
	}
	_ = e.cmd.Wait()
	e.wait("the end of the tree", e.tree)
}

var coreLine = regexp.MustCompile(`\(EngineCore pid=(\d+)\)`)

func (e *engineProcess) read(r *os.File) {
	defer close(e.tree)
	defer r.Close()
	serving := false
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		e.mu.Lock()
		e.log.WriteString(lines.Text() + "\n")
		e.mu.Unlock()
		if m := coreLine.FindStringSubmatch(lines.Text()); m != nil {
			pid, _ := strconv.Atoi(m[1])
			select {
			case e.core <- pid:
			default:
			}
		}
		if !serving && strings.Contains(lines.Text(), "Application startup complete") {
			serving = true
			close(e.ready)
		}
	}
}

func (e *engineProcess) wait(what string, done <-chan struct{}) {
	e.t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		e.t.Fatalf("waited %v for %s; log:\n%s", patience, what, e.logged())
	}
}

func (e *engineProcess) logged() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.log.String()
}

func (e *engineProcess) serving() *engineProcess {
	e.t.Helper()
	e.wait("the engine to serve", e.ready)
	return e
}

// exit waits for the API server's end and returns its status.
func (e *engineProcess) exit() int {
	e.t.Helper()
	err := e.cmd.Wait()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		e.t.Fatal(err)
	}
	return e.cmd.ProcessState.ExitCode()
}

func (e *engineProcess) corePID() int {
	e.t.Helper()
	select {
	case pid := <-e.core:
		e.core <- pid // for the clean-up
		return pid
	case <-time.After(patience):
		e.t.Fatalf("no EngineCore; log:\n%s", e.logged())
		return 0
	}
}

func (e *engineProcess) call(method, path, body string) (int, string, error) {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", e.uds)
	}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: patience}
	r, err := http.NewRequest(method, "http://engine"+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(raw), err
}

func (e *engineProcess) signal(s syscall.Signal) {
	e.t.Helper()
	if err := e.cmd.Process.Signal(s); err != nil {
		e.t.Fatal(err)
	}
}

func TestLifeOfAnEngine(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--served-model-name", "m", "--max-num-seqs", "32", "--enable-prompt-tokens-details", "--disable-access-log-for-endpoints", "/health").serving()
	if status, _, err := e.call("GET", "/health", ""); status != http.StatusOK {
		t.Fatalf("/health: %d, %v", status, err)
	}
	status, body, err := e.call("POST", "/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"[[sim:say hi]]"}]}`)
	if status != http.StatusOK || !strings.Contains(body, "SIMULATED hi") {
		t.Fatalf("%d %s %v", status, body, err)
	}
	e.signal(syscall.SIGTERM)
	if got := e.exit(); got != 0 {
		t.Errorf("exit status %d after SIGTERM", got)
	}
	e.wait("EngineCore to go, too", e.tree)
	log := e.logged()
	at := 0
	for _, phase := range []string{
		"vLLM server version 0.32.0+SIMULATED", "this is no vLLM", "Resolved architecture", "Initializing a V1 LLM engine", "Starting to load model org/model",
		"checkpoint shards: 100% Completed | 3/3", "Model loading took", "Dynamo bytecode transform time", "Available KV cache memory",
		"GPU KV cache size: 40,000 tokens", "Capturing CUDA graphs: 100% Completed", "init engine (profile, create kv cache, warmup model) took",
		"Starting vLLM server on unix:", "Application startup complete", `"POST /v1/chat/completions HTTP/1.1" 200 OK`, "shutdown triggered", "Finished server process",
	} {
		i := strings.Index(log[at:], phase)
		if i < 0 {
			t.Fatalf("%q is missing, or out of order, in:\n%s", phase, log)
		}
		at += i
	}
	if strings.Contains(log, "/health") && strings.Contains(log, `"GET /health`) {
		t.Error("/health is in the access log though it was excepted")
	}
	if _, err := os.Stat(e.uds); err != nil {
		t.Errorf("the socket file must stay behind: %v", err)
	}
	again := startEngineAt(t, e.uds)
	if got := again.exit(); got != 1 {
		t.Errorf("exit status %d on a stale socket", got)
	}
	again.wait("its log", again.tree)
	if !strings.Contains(again.logged(), "OSError: [Errno 98] Address already in use") {
		t.Errorf("log:\n%s", again.logged())
	}
}

func TestBoundButNotListeningWhileLoading(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--sim-load", "10m")
	waitFor(t, "the log to begin: then the socket is bound", func() bool { return strings.Contains(e.logged(), "non-default args") })
	if _, _, err := e.call("GET", "/health", ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("while loading: %v, want connection refused", err)
	}
	e.signal(syscall.SIGTERM)
	if got := e.exit(); got != 128+int(syscall.SIGTERM) {
		t.Errorf("exit status %d", got)
	}
	e.wait("EngineCore to go, too", e.tree)
}

func TestTCP(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	e := startEngine(t, "--uds", "", "--host", "127.0.0.1", "--port", strconv.Itoa(port)).serving()
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"stream":true,"messages":[{"role":"user","content":"[[sim:reset 2]]"}]}`
	fmt.Fprintf(conn, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	if raw, err := io.ReadAll(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read %q, then %v; want a reset", raw, err)
	}
	second := startEngine(t, "--uds", "", "--host", "127.0.0.1", "--port", strconv.Itoa(port))
	if got := second.exit(); got != 1 {
		t.Errorf("exit status %d on a taken port", got)
	}
	e.signal(syscall.SIGINT)
	if got := e.exit(); got != 0 {
		t.Errorf("exit status %d after SIGINT", got)
	}
}

func TestStartsThatFail(t *testing.T) {
	t.Parallel()
	tests := []struct {
		args   string
		status int
		text   string
	}{
		{"--no-such-flag 5 --other", 2, "error: unrecognized arguments: --no-such-flag 5 --other"},
		{"--max-model-len 262144", 1, "the estimated maximum model length is 39984"},
		{"--sim-fault fire=1", 1, "unknown fault"},
		{"--watermark 2", 1, "watermark"},
	}
	for _, tt := range tests {
		e := startEngine(t, strings.Fields(tt.args)...)
		if got := e.exit(); got != tt.status {
			t.Errorf("%s: exit status %d, want %d", tt.args, got, tt.status)
		}
		e.wait("its log", e.tree)
		if !strings.Contains(e.logged(), tt.text) {
			t.Errorf("%s: %q is missing in:\n%s", tt.args, tt.text, e.logged())
		}
	}
}

// The death of EngineCore: 503, then nobody listens, then exit status 0.
func TestDeathOfEngineCore(t *testing.T) {
	t.Parallel()
	for _, fault := range []bool{false, true} {
		e := startEngine(t, "--sim-profile", "demo").serving()
		begun := make(chan string, 1)
		go func() {
			_, body, _ := e.call("POST", "/v1/chat/completions", `{"max_tokens":30000,"ignore_eos":true,"messages":[{"role":"user","content":"hi"}]}`)
			begun <- body
		}()
		waitFor(t, "a running request", func() bool {
			_, metrics, _ := e.call("GET", "/metrics", "")
			return strings.Contains(metrics, `vllm:num_requests_running{engine="0",model_name="org/model"} 1.0`)
		})
		if fault {
			if status, body, err := e.call("POST", "/sim/fault", `{"engine-death":"0s"}`); status != http.StatusOK {
				t.Fatal(status, body, err)
			}
		} else if err := syscall.Kill(e.corePID(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if body := <-begun; !strings.Contains(body, "EngineCore encountered an issue") {
			t.Errorf("the request in flight got %s", body)
		}
		if got := e.exit(); got != 0 {
			t.Errorf("exit status %d; vLLM's is 0", got)
		}
		e.wait("the end of the tree", e.tree)
		if !strings.Contains(e.logged(), "EngineDeadError") {
			t.Errorf("log:\n%s", e.logged())
		}
	}
}

// waitFor polls a condition that only another process can bring about.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !cond() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// stat returns a process's parent, group and session.
func stat(t *testing.T, pid int) (parent, group, session int) {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	rest := raw[bytes.LastIndexByte(raw, ')')+2:]
	var state string
	if _, err := fmt.Sscan(string(rest), &state, &parent, &group, &session); err != nil {
		t.Fatal(err)
	}
	return parent, group, session
}

func TestTreeShapes(t *testing.T) {
	t.Parallel()
	for _, shape := range []string{treeGroup, treeSetsid, treeDoubleFork} {
		e := startEngine(t, "--sim-tree", shape).serving()
		api, core := e.cmd.Process.Pid, e.corePID()
		parent, group, session := stat(t, core)
		sameGroup, child := group == api, parent == api
		if sameGroup != (shape == treeGroup) || child != (shape != treeDoubleFork) || (shape != treeGroup) != (session == core) {
			t.Errorf("%s: API server %d; EngineCore %d has parent %d, group %d, session %d", shape, api, core, parent, group, session)
		}
		// SIGKILL of the API server leaves EngineCore behind, as vLLM does.
		e.signal(syscall.SIGKILL)
		e.exit()
		if err := syscall.Kill(core, 0); err != nil {
			t.Errorf("%s: EngineCore died with its API server: %v", shape, err)
		}
		if err := syscall.Kill(core, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		e.wait("EngineCore's end", e.tree)
	}
	e := startEngine(t, "--sim-tree", treeNone).serving()
	select {
	case pid := <-e.core:
		if pid != e.cmd.Process.Pid {
			t.Errorf("tree none has a second process %d", pid)
		}
	default:
		t.Error("no EngineCore lines")
	}
	e.signal(syscall.SIGTERM)
	e.exit()
}

func TestOrphanedCoreEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--sim-orphan-limit", "50ms").serving()
	e.signal(syscall.SIGKILL)
	e.exit()
	e.wait("the orphan to end", e.tree)
}

func TestIgnoredTermAndHeldMemory(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--sim-fault", "ignore-term=true", "--sim-fault", "hold=10m").serving()
	e.signal(syscall.SIGTERM)
	waitFor(t, "the ignored SIGTERM", func() bool { return strings.Contains(e.logged(), "SIGTERM ignored") })
	if status, _, err := e.call("GET", "/health", ""); status != http.StatusOK {
		t.Errorf("/health: %d, %v", status, err)
	}
	if status, body, err := e.call("POST", "/sim/fault", `{"ignore-term":false}`); status != http.StatusOK {
		t.Fatal(status, body, err)
	}
	e.signal(syscall.SIGTERM)
	if got := e.exit(); got != 0 {
		t.Errorf("exit status %d", got)
	}
	if err := syscall.Kill(e.corePID(), 0); err != nil {
		t.Errorf("EngineCore must hold its memory: %v", err)
	}
}

func TestExitOnDemandAndLogFlood(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--sim-fault", "log-flood=2000").serving()
	waitFor(t, "the flood", func() bool { return strings.Count(e.logged(), "log flood") > 100 })
	if status, body, err := e.call("POST", "/sim/fault", `{"exit":"42","log-flood":null}`); status != http.StatusOK && err == nil {
		t.Fatal(status, body)
	}
	if got := e.exit(); got != 42 {
		t.Errorf("exit status %d, want 42", got)
	}
	e.wait("the end of the tree", e.tree)
}

func TestDrainOnShutdown(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--sim-profile", "demo", "--shutdown-timeout", "20").serving()
	answer := make(chan string, 1)
	go func() {
		_, body, err := e.call("POST", "/v1/completions", `{"prompt":"x","max_tokens":40,"ignore_eos":true}`)
		answer <- fmt.Sprint(body, err)
	}()
	waitFor(t, "a running request", func() bool {
		_, metrics, _ := e.call("GET", "/metrics", "")
		return strings.Contains(metrics, `vllm:num_requests_running{engine="0",model_name="org/model"} 1.0`)
	})
	e.signal(syscall.SIGTERM)
	if got := <-answer; !strings.Contains(got, `"finish_reason":"length"`) {
		t.Errorf("the request in flight got %s", got)
	}
	if got := e.exit(); got != 0 {
		t.Errorf("exit status %d", got)
	}
}

func TestCrashAtRandom(t *testing.T) {
	t.Parallel()
	e := startEngine(t, "--sim-fault", "crash=1ms").serving()
	if got := e.exit(); got != 0 {
		t.Errorf("exit status %d", got)
	}
	e.wait("the end of the tree", e.tree)
}

func TestCoreRefusesToBeStartedByHand(t *testing.T) {
	var out bytes.Buffer
	if got := Main(t.Context(), []string{coreCommand}, &out, &out); got != exitUsage || !strings.Contains(out.String(), "by the simulated engine only") {
		t.Errorf("status %d: %s", got, out.String())
	}
}
