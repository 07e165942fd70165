//go:build vllm

package vllm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

// startLimit for one engine on one busy core; alone it takes 30 s.
const startLimit = 4 * time.Minute

// realEngine finds the environment that `warden setup --device cpu` makes.
func realEngine(t *testing.T) *Engine {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	in, err := Find(FindOptions{ManagedDir: filepath.Join(cache, "warden"), Device: supervisor.DeviceCPU})
	if err != nil {
		t.Fatal(err)
	}
	return New(in, Options{})
}

// tinySpec is a replica of the built-in model on the last core, so that the
// others stay free.
func tinySpec(t *testing.T, args ...string) supervisor.Spec {
	t.Helper()
	// Not t.TempDir: a unix socket's path is short.
	dir, err := os.MkdirTemp("", "warden")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := tiny.Write(filepath.Join(dir, "tiny")); err != nil {
		t.Fatal(err)
	}
	return supervisor.Spec{
		ID: "r0", Model: tiny.Name, Repo: filepath.Join(dir, "tiny"), ServedNames: []string{tiny.Name, "alias"},
		Device: supervisor.DeviceCPU, CPUs: []int{runtime.NumCPU() - 1}, Address: "unix:" + filepath.Join(dir, "r0.sock"),
		MaxNumSeqs: 32, Args: append(tiny.Args(), args...),
	}
}

// process is an engine started without a supervisor: what is tested here is the
// command line and how the output is read.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	client *http.Client
	exited chan struct{}

	mu    sync.Mutex
	lines []string
}

func start(t *testing.T, e *Engine, s supervisor.Spec) *process {
	t.Helper()
	c, err := e.Command(s)
	if err != nil {
		t.Fatal(err)
	}
	socket, _ := strings.CutPrefix(s.Address, "unix:")
	p := &process{t: t, cmd: exec.Command(c.Argv[0], c.Argv[1:]...), exited: make(chan struct{})}
	p.cmd.Env, p.cmd.Dir = c.Env, t.TempDir()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr = w, w
	// Affinity is inherited from the thread that starts the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, pinned unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		t.Fatal(err)
	}
	for _, cpu := range s.CPUs {
		pinned.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &pinned); err != nil {
		t.Fatal(err)
	}
	err = p.cmd.Start()
	if e := unix.SchedSetaffinity(0, &before); e != nil {
		t.Fatal(e)
	}
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	var dialer net.Dialer
	p.client = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", socket)
		},
	}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		sc := bufio.NewScanner(r)
		for sc.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, sc.Text())
			p.mu.Unlock()
		}
	}()
	go func() {
		_ = p.cmd.Wait()
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-read
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.exited
		p.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("engine's output:\n%s", strings.Join(p.log(), "\n"))
		}
	})
	return p
}

func (p *process) log() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.lines)
}

// waitHealthy polls /health, as the supervisor does.
func (p *process) waitHealthy() time.Duration {
	p.t.Helper()
	begun := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(startLimit)
	for {
		select {
		case <-p.exited:
			p.t.Fatal("the engine ended before it was ready")
		case <-limit:
			p.t.Fatal("the engine was not ready in time")
		case <-tick.C:
			if res, err := p.client.Get("http://engine/health"); err == nil {
				res.Body.Close()
				if res.StatusCode == http.StatusOK {
					return time.Since(begun)
				}
			}
		}
	}
}

func (p *process) waitExit() supervisor.Exit {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(startLimit):
		p.t.Fatal("the engine did not end in time")
	}
	st := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if st.Signaled() {
		return supervisor.Exit{Signal: st.Signal()}
	}
	return supervisor.Exit{Code: st.ExitStatus()}
}

func (p *process) post(path string, body, into any) {
	p.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	res, err := p.client.Post("http://engine"+path, "application/json", bytes.NewReader(raw))
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		p.t.Fatalf("POST %s: %s %s %v", path, res.Status, answer, err)
	}
	if err := json.Unmarshal(answer, into); err != nil {
		p.t.Fatalf("POST %s: %v in %s", path, err, answer)
	}
}

func (p *process) stats(e *Engine) supervisor.EngineStats {
	p.t.Helper()
	res, err := p.client.Get("http://engine/metrics")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	s, err := e.ParseStats(res.Body, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func TestRealEngine(t *testing.T) {
	e, s := realEngine(t), tinySpec(t)
	p := start(t, e, s)
	t.Logf("ready after %.1fs", p.waitHealthy().Seconds())

	t.Run("phases", func(t *testing.T) {
		order := []string{supervisor.PhaseSpawn, supervisor.PhaseWeights, supervisor.PhaseProfile, supervisor.PhaseServe}
		var seen []string
		kv := 0
		for _, line := range p.log() {
			ph, ok := e.Phase(line)
			if !ok {
				continue
			}
			t.Log(shown(ph))
			if len(seen) == 0 || seen[len(seen)-1] != ph.Name {
				seen = append(seen, ph.Name)
			}
			kv = max(kv, ph.KVTokens)
		}
		if !slices.Equal(seen, order) {
			t.Errorf("phases = %q, want %q", seen, order)
		}
		if kv != tiny.KVTokens {
			t.Errorf("KV capacity in the log = %d, want %d", kv, tiny.KVTokens)
		}
	})

	before := p.stats(e)
	if before.KVCapacityTokens != tiny.KVTokens || before.BlockSize != 32 || before.PromptTokens != 0 {
		t.Errorf("stats before = %+v", before)
	}

	var models struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	res, err := p.client.Get("http://engine/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	err = json.NewDecoder(res.Body).Decode(&models)
	res.Body.Close()
	if err != nil || len(models.Data) != 2 || models.Data[0].ID != tiny.Name || models.Data[1].ID != "alias" || models.Data[0].MaxModelLen != 16384 {
		t.Errorf("models = %+v, %v", models, err)
	}

	t.Run("cached tokens", func(t *testing.T) { cachedTokens(t, p) })

	after := p.stats(e)
	if after.PrefixHits == 0 || after.PrefixQueries <= after.PrefixHits || after.PromptTokens != after.PrefixQueries ||
		after.GenerationTokens != 3*answerTokens || after.Iterations < answerTokens || after.Preemptions != 0 {
		t.Errorf("stats after = %+v", after)
	}

	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if exit := p.waitExit(); exit != (supervisor.Exit{}) {
		t.Errorf("exit after SIGTERM = %+v", exit)
	}
	t.Logf("ended %.1fs after SIGTERM", time.Since(begun).Seconds())
}

const answerTokens = 8

// cachedTokens sends a prompt twice over the OpenAI API and once over
// Anthropic's: a byte is a token, so the numbers are known beforehand.
func cachedTokens(t *testing.T, p *process) {
	const block = 32
	text := strings.Repeat("0123456789abcdef", 170)
	// "<|im_start|>user\n" + text + "<|im_end|>\n" + "<|im_start|>assistant\n"
	prompt := 1 + len("user\n") + len(text) + 1 + len("\n") + 1 + len("assistant\n")
	type usage struct {
		Prompt  int `json:"prompt_tokens"`
		Details struct {
			Cached int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	chat := map[string]any{
		"model": "alias", "max_tokens": answerTokens, "ignore_eos": true, "allowed_token_ids": []int{'y'},
		"messages": []map[string]string{{"role": "user", "content": text}},
	}
	for _, cached := range []int{0, (prompt - 1) / block * block} {
		var got struct {
			Usage   usage `json:"usage"`
			Choices []struct {
				Message struct {
					Content string `json:"content"`
				} `json:"message"`
			} `json:"choices"`
		}
		p.post("/v1/chat/completions", chat, &got)
		if got.Usage.Prompt != prompt || got.Usage.Details.Cached != cached {
			t.Errorf("usage = %+v, want %d prompt tokens with %d cached", got.Usage, prompt, cached)
		}
		if got.Choices[0].Message.Content != strings.Repeat("y", answerTokens) {
			t.Errorf("answer = %q", got.Choices[0].Message.Content)
		}
	}
	var got struct {
		Usage struct {
			Input  int `json:"input_tokens"`
			Cached int `json:"cache_read_input_tokens"`
		} `json:"usage"`
	}
	p.post("/v1/messages", map[string]any{
		"model": tiny.Name, "max_tokens": answerTokens, "ignore_eos": true,
		"messages": []map[string]string{{"role": "user", "content": text}},
	}, &got)
	if cached := (prompt - 1) / block * block; got.Usage.Cached != cached || got.Usage.Input != prompt-cached {
		t.Errorf("Anthropic usage = %+v, want %d cached of %d", got.Usage, cached, prompt)
	}
}

func TestRealFailures(t *testing.T) {
	e := realEngine(t)
	for name, tc := range map[string]struct {
		args      []string
		code      int
		cause     string
		permanent bool
	}{
		"unknown flag":     {[]string{"--no-such-flag", "5"}, 2, "does not know the argument --no-such-flag", true},
		"invalid choice":   {[]string{"--dtype", "int3"}, 2, "vLLM refuses the argument --dtype: invalid choice: 'int3'", true},
		"KV too small":     {[]string{"--num-gpu-blocks-override", "313"}, 1, "does not fit in the KV cache, about 9984 tokens do", true},
		"context too long": {[]string{"--max-model-len", "65536"}, 1, "the model's context is 32768 tokens and 65536 were asked for", true},
		"no memory":        {[]string{"--kv-cache-memory-bytes", "4000G"}, 1, "the KV cache was to take 4000", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, e, tinySpec(t, tc.args...))
			exit := p.waitExit()
			d := e.Diagnose(last(p.log(), 200), exit)
			t.Logf("exit %d: %s; fix: %s", exit.Code, d.Cause, d.Fix)
			if exit.Code != tc.code || !strings.Contains(d.Cause, tc.cause) || d.Permanent != tc.permanent {
				t.Errorf("exit %+v, diagnosis %+v", exit, d)
			}
		})
	}
	t.Run("stale socket", func(t *testing.T) {
		s := tinySpec(t)
		l, err := net.Listen("unix", strings.TrimPrefix(s.Address, "unix:"))
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := start(t, e, s)
		exit := p.waitExit()
		if d := e.Diagnose(last(p.log(), 200), exit); !strings.Contains(d.Cause, "address is taken") || d.Permanent {
			t.Errorf("exit %+v, diagnosis %+v", exit, d)
		}
	})
	t.Run("a flag that warden can do without", func(t *testing.T) {
		// This vLLM knows the flag; what is shown is that it starts without.
		broken := New(e.Install(), Options{})
		d := broken.Diagnose([]string{fmt.Sprintf("vllm: error: unrecognized arguments: %s %s", "--disable-access-log-for-endpoints", quietPaths)}, supervisor.Exit{Code: 2})
		if d.Permanent {
			t.Fatalf("diagnosis = %+v", d)
		}
		p := start(t, broken, tinySpec(t))
		p.waitHealthy()
	})
}

// TestRealContextChosenByEngine starts the heavy variant without a context
// length: warden's "auto" must shrink it to what the KV cache holds.
func TestRealContextChosenByEngine(t *testing.T) {
	e, s := realEngine(t), tinySpec(t)
	if err := tiny.WriteHeavy(s.Repo); err != nil {
		t.Fatal(err)
	}
	s.Args = tiny.HeavyArgs()
	i := slices.Index(s.Args, "--max-model-len")
	s.Args = slices.Delete(s.Args, i, i+2)
	p := start(t, e, s)
	p.waitHealthy()
	if st := p.stats(e); st.KVCapacityTokens != tiny.HeavyKVTokens {
		t.Errorf("stats = %+v, want a capacity of %d", st, tiny.HeavyKVTokens)
	}
	var answer struct {
		Usage struct {
			Prompt int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	p.post("/v1/completions", map[string]any{"model": tiny.Name, "prompt": strings.Repeat("x", 9000), "max_tokens": 1}, &answer)
	if answer.Usage.Prompt != 9000 {
		t.Errorf("usage = %+v", answer.Usage)
	}
	// 313 blocks hold 10,016 tokens; vLLM keeps one block back.
	fitted := func(l string) bool { return strings.Contains(l, "reduced from 32768 to 9984") }
	if !slices.ContainsFunc(p.log(), fitted) {
		t.Error("the context was not fitted to the KV cache")
	}
}

func last(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
