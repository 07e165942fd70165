package realladder

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/process"
	"github.com/lm-warden/warden/cmd/internal/proxies"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/vllm"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

// model is the name that everything serves.
const model = "heavy"

// Replicas, and vLLM's limit of concurrent sequences on each.
const (
	replicas   = 2
	maxNumSeqs = configs.DefaultMaxNumSeqs
)

// Figures of waiting.
const (
	startLimit = 8 * time.Minute // two engines at once on busy cores; alone one takes 30 s
	stopLimit  = time.Minute
)

// bed holds the two engines. warden starts them; while it is not there they go
// on, and the next warden takes them over.
type bed struct {
	Options
	dir     string // everything of the run, on a short path: it holds sockets
	install vllm.Install
	reader  *vllm.Engine
	client  *http.Client
	home    proxies.Home
	warden  *process.Process
	engines []string // addresses, http://host:port
	own     *process.Process
	ownURL  string
}

// engineArgs are the arguments of every vLLM here. One process computes: the
// default executor of the CPU build wastes a third of a core on waiting.
func engineArgs() []string {
	return append(tiny.HeavyArgs(), "--distributed-executor-backend", "uni")
}

// engineEnv belongs to the executor: the engine core computes in its own process.
const engineEnv = "VLLM_ENABLE_V1_MULTIPROCESSING=0"

func newBed(o Options) (*bed, error) {
	install, err := vllm.Find(vllm.FindOptions{Flag: o.VLLM, ManagedDir: o.Managed, Device: supervisor.DeviceCPU})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lv")
	if err != nil {
		return nil, err
	}
	b := &bed{
		Options: o, dir: dir, install: install, reader: vllm.New(install, vllm.Options{}),
		client: &http.Client{Transport: &http.Transport{IdleConnTimeout: 4 * time.Second, DisableCompression: true}},
	}
	b.home = proxies.Home{Dir: dir, Peers: o.Peers, Client: b.client}
	return b, tiny.WriteHeavy(b.model())
}

func (b *bed) model() string { return filepath.Join(b.dir, model) }

// useWarden starts a warden over the engines, the first time with the engines; the
// settings are those of the model's configuration that an arm differs by.
func (b *bed) useWarden(ctx context.Context, settings map[string]any) (url string, err error) {
	b.leaveWarden()
	limit := startLimit
	if len(b.engines) > 0 {
		limit = stopLimit
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	served := map[string]any{
		"alias": model, "repo": b.model(), "dp": replicas, "max_num_seqs": maxNumSeqs,
		"args": engineArgs(), "env": []string{engineEnv},
	}
	maps.Copy(served, settings)
	w, err := b.home.StartWarden(ctx, b.Warden, map[string]any{
		"engine": map[string]any{"device": configs.DeviceCPU, "listen": "tcp", "parallel_start": true, "vllm": b.install.Argv[0]},
		"models": []any{served},
	}, replicas)
	if err != nil {
		return "", err
	}
	b.warden = w.Process
	return w.URL, b.findEngines(w.Status)
}

// findEngines reads where the engines listen from their command lines, and
// makes sure that they are the same as before.
func (b *bed) findEngines(status control.Status) error {
	var found []string
	for _, r := range status.Replicas {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.PID))
		if err != nil {
			return fmt.Errorf("replica %s: %w", r.ID, err)
		}
		args := strings.Split(string(line), "\x00")
		at := slices.Index(args, "--port")
		if at < 0 || at+1 >= len(args) {
			return fmt.Errorf("replica %s does not listen on a port: %q", r.ID, args)
		}
		found = append(found, "http://127.0.0.1:"+args[at+1])
	}
	if b.engines != nil && !slices.Equal(b.engines, found) {
		return fmt.Errorf("the engines are others than before: %v, then %v", b.engines, found)
	}
	b.engines = found
	return nil
}

// leaveWarden takes warden away; its engines go on.
func (b *bed) leaveWarden() {
	if b.warden != nil {
		b.warden.Kill()
		b.warden = nil
	}
}

// settle waits until no engine has work left from the cell before.
func (b *bed) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		left := 0
		for _, address := range b.addresses() {
			stats, err := b.stats(ctx, address)
			if err != nil {
				return err
			}
			left += stats.Running + stats.Waiting
		}
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d requests of the cell before do not end: %w", left, ctx.Err())
		case <-tick.C:
		}
	}
}

// addresses are those of all engines, vLLM's own arm included.
func (b *bed) addresses() []string {
	if b.ownURL == "" {
		return b.engines
	}
	return append(slices.Clone(b.engines), b.ownURL)
}

func (b *bed) stats(ctx context.Context, address string) (supervisor.EngineStats, error) {
	body, err := b.get(ctx, address+"/metrics")
	if err != nil {
		return supervisor.EngineStats{}, err
	}
	return b.reader.ParseStats(bytes.NewReader(body), time.Now())
}

// close ends everything that runs and removes what the run wrote, but not the
// logs when it failed.
func (b *bed) close(failed bool) error {
	b.leaveWarden()
	if b.own != nil {
		b.own.Stop(stopLimit)
	}
	err := b.home.WardenDown(b.Warden)
	b.client.CloseIdleConnections()
	if failed || err != nil {
		fmt.Fprintf(b.Log, "the logs of the run are in %s\n", b.dir)
		return err
	}
	return os.RemoveAll(b.dir)
}
