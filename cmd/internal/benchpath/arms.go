package benchpath

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/process"
	"github.com/lm-warden/warden/cmd/internal/proxies"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

// Names of arms that others are held against.
const (
	noneName    = "none"
	wardenName  = "warden"
	haproxyName = "HAProxy"
)

// modelName is what all engines serve.
const modelName = tiny.Name

// arm is one of the things compared, while it runs.
type arm struct {
	name string
	urls []string        // that clients use in turn
	run  proxies.Running // zero for none
	tree bool            // its children are part of it

	idle            float64       // CPU seconds a second when it has nothing to do
	fresh           process.Usage // once it was ready, before any work
	freshGoroutines int
	most            int                                // streams that it has held at the same time
	goroutines      func(context.Context) (int, error) // nil where it does not tell
	stop            func() error
}

// usage is what the proxy has used; of none it is nothing.
func (a *arm) usage() (process.Usage, error) {
	if a.run.Process == nil {
		return process.Usage{}, nil
	}
	pids := []int{a.run.Process.PID()}
	if a.tree {
		var err error
		if pids, err = process.Tree(pids[0]); err != nil {
			return process.Usage{}, err
		}
	}
	return process.UsageOf(pids...)
}

// contender can become an arm.
type contender struct {
	name    string
	program string // that must be installed; "" = needs none
	llm     bool   // an LLM router: it reads bodies, as warden does
	start   func(context.Context, *bed) (*arm, error)
}

func contenders() []contender {
	return []contender{
		{name: noneName, start: func(_ context.Context, b *bed) (*arm, error) {
			return &arm{name: noneName, urls: b.urls(), stop: func() error { return nil }}, nil
		}},
		{name: wardenName, llm: true, start: startWarden},
		peer(copyName, false, func(b *bed) proxies.Peer { return bareCopy(b.Engine, b.sockets()) }),
		peer(haproxyName, false, func(b *bed) proxies.Peer { return proxies.HAProxy(b.sockets()) }),
		peer("nginx", false, func(b *bed) proxies.Peer { return proxies.Nginx(b.sockets()) }),
		peer("vllm-router", true, func(b *bed) proxies.Peer {
			return proxies.VLLMRouter(b.urls(), "--policy", "sticky_least_loaded", "--log-level", "warning")
		}),
		peer("smg", true, func(b *bed) proxies.Peer {
			// Its own bound of requests in flight follows from the engines' and
			// would refuse the largest loads.
			return proxies.SMG(b.urls(), "--policy", "manual", "--assignment-mode", "min_load", "--log-level", "warn",
				"--max-concurrent-requests", strconv.Itoa(maxSequences))
		}),
	}
}

func peer(name string, llm bool, p func(*bed) proxies.Peer) contender {
	return contender{name: name, llm: llm, program: p(&bed{}).Program, start: func(ctx context.Context, b *bed) (*arm, error) {
		run, err := b.home.Start(ctx, name, p(b))
		if err != nil {
			return nil, err
		}
		return &arm{name: name, urls: []string{run.URL}, run: run, tree: true, stop: func() error { run.Stop(); return nil }}, nil
	}}
}

// startWarden starts the shipped program with its default settings. Its engines
// are processes of the same program as everybody's, which warden starts and
// watches as it would vLLM; they and their shims are not counted, since the
// other proxies' engines are not.
func startWarden(ctx context.Context, b *bed) (*arm, error) {
	w, err := b.home.StartWarden(ctx, b.Warden, map[string]any{
		"engine": map[string]any{"device": configs.DeviceCPU, "vllm": b.Engine},
		// What engines can hold is not to limit what a proxy can.
		"models": []any{map[string]any{"alias": modelName, "dp": replicas, "max_num_seqs": maxSequences}},
	}, replicas)
	if err != nil { // its engines would outlive it
		return nil, errors.Join(err, b.home.WardenDown(b.Warden))
	}
	return &arm{
		name: wardenName, urls: []string{w.URL}, run: w.Running,
		goroutines: func(ctx context.Context) (int, error) { return goroutines(ctx, b.home.Client, w.URL) },
		stop:       func() error { return b.home.WardenDown(b.Warden) },
	}, nil
}

// goroutines reads warden's own count.
func goroutines(ctx context.Context, client *http.Client, url string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if v, ok := strings.CutPrefix(lines.Text(), "go_goroutines "); ok {
			return strconv.Atoi(v)
		}
	}
	return 0, fmt.Errorf("%s/metrics (%s) tells no go_goroutines", url, resp.Status)
}
