//go:build vllm

package agreement

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/process"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/vllm"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

const (
	realTurns  = 1200
	startLimit = 4 * time.Minute // alone it takes 30 s
)

// real starts vLLM's CPU build with the KV cache of the simulated engine.
func real(t *testing.T) (Engine, *vllm.Engine) {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	install, err := vllm.Find(vllm.FindOptions{ManagedDir: filepath.Join(cache, "warden"), Device: supervisor.DeviceCPU})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	model := filepath.Join(dir, tiny.Name)
	if err := tiny.Write(model); err != nil {
		t.Fatal(err)
	}
	address, err := process.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	address = "http://" + address
	engine := vllm.New(install, vllm.Options{})
	command, err := engine.Command(supervisor.Spec{
		ID: "r0", Model: Model, Repo: model, ServedNames: []string{Model}, Device: supervisor.DeviceCPU,
		CPUs: []int{0}, Address: address, MaxNumSeqs: 32,
		// One process computes: the default of the CPU build wastes a third of
		// a core on waiting.
		Env: []string{"VLLM_ENABLE_V1_MULTIPROCESSING=0"},
		Args: append(tiny.Args(), "--distributed-executor-backend", "uni",
			"--num-gpu-blocks-override", strconv.Itoa(blocks), "--max-model-len", strconv.Itoa(context3k)),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(process.Command{Name: "vllm", Argv: command.Argv, Env: command.Env, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Stop(5 * time.Second) })
	transport := &http.Transport{IdleConnTimeout: 4 * time.Second} // uvicorn closes after 5 s
	t.Cleanup(transport.CloseIdleConnections)
	e := Engine{Client: &http.Client{Transport: transport, Timeout: time.Minute}, Base: address}
	ctx, cancel := context.WithTimeout(t.Context(), startLimit)
	defer cancel()
	began := time.Now()
	if err := p.Await(ctx, "was ready", process.Answers(e.Client, e.Base+"/health")); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s ready after %v", install.Version, time.Since(began).Round(time.Second))
	return e, engine
}

// counters reads what the engine counted itself.
func counters(t *testing.T, e Engine, reader *vllm.Engine) supervisor.EngineStats {
	t.Helper()
	resp, err := e.Client.Get(e.Base + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	stats, err := reader.ParseStats(resp.Body, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	stats.Iterations = 0 // steps that emit a token: vLLM plans one ahead
	return stats
}

// Every turn of the script gives the same prompt, cached, created and answer
// tokens, finish reason and text, and in the end the same counters. What differs
// has a name, and is proven to be that.
func TestRealAgreement(t *testing.T) {
	vLLM, reader := real(t)
	script := Script(1, realTurns)
	began := time.Now()
	said := play(t, vLLM, script)
	took := time.Since(began).Round(time.Second)
	sum := Sum(script, said)
	t.Logf("%d turns in %v: %d of %d prompt tokens cached, %d answer tokens, kinds %v", len(said), took, sum.Cached, sum.Prompt, sum.Output, sum.ByKind)
	var ours Engine
	fresh := func() Engine {
		ours = simulated(t, blocks)
		return ours
	}
	for _, d := range Compare(script, said, play(t, fresh(), script)) {
		t.Logf("vLLM and the simulated engine differ: %v", d)
	}
	e, err := Explain(t.Context(), fresh, blockSize, script, said)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range e.Turns() {
		t.Logf("explained: at turn %d (%s) %s, by %d", i, script[i].Kind, RanOn, e.RanOn[i])
	}
	left := Compare(script, said, e.Outcomes)
	for _, d := range left[:min(len(left), 10)] {
		t.Errorf("not explained: %v", d)
	}
	if len(left) > 0 {
		t.Fatalf("%d of %d turns differ", len(left), len(script))
	}
	want, got := counters(t, vLLM, reader), counters(t, ours, reader)
	got.GenerationTokens -= uint64(e.Tokens()) // vLLM does not count what nobody was sent
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters of vLLM (-) and the simulated engine (+):\n%s", diff)
	}
}
