package realladder

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/process"
	"github.com/lm-warden/warden/supervisor/vllm/tiny"
)

// peer is another router in front of the two engines.
type peer struct {
	program string // looked for in Options.Peers/*/bin, then in PATH
	argv    func(b *bed, program, host, port string) ([]string, error)
}

// haproxyConfig is what HAProxy needs to keep conversations: http-no-delay,
// without which every answer waits about 0.15 s; timeouts beyond any queue.
const haproxyConfig = `defaults
  mode http
  option http-no-delay
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  timeout queue 10m
frontend front
  bind %s:%s
  default_backend engines
backend engines
  balance leastconn
  stick-table type string len 128 size 10k expire 30m
  stick on req.hdr(X-Session-ID)
`

func haproxy(b *bed, program, host, port string) ([]string, error) {
	text := fmt.Sprintf(haproxyConfig, host, port)
	for i, e := range b.engines {
		text += fmt.Sprintf("  server r%d %s\n", i, strings.TrimPrefix(e, "http://"))
	}
	file := filepath.Join(b.dir, "haproxy.cfg")
	return []string{program, "-db", "-f", file}, os.WriteFile(file, []byte(text), 0o600)
}

func vllmRouter(b *bed, program, host, port string, more ...string) []string {
	metrics, err := process.FreeAddress()
	if err != nil {
		metrics = host + ":0" // it then says itself that this will not do
	}
	argv := append([]string{program, "--worker-urls"}, b.engines...)
	argv = append(argv, "--host", host, "--port", port, "--prometheus-port", metrics[strings.LastIndex(metrics, ":")+1:], "--disable-retries")
	return append(argv, more...)
}

// programs is vllm-router's program scheduling, told what it would otherwise
// guess: the capacity and the costs of these engines.
func programs(b *bed, program, host, port string) ([]string, error) {
	settings, err := json.Marshal(map[string]any{
		"program_scheduling_enable_key": "auto", "global_queue": true,
		"token_capacity_per_target": tiny.HeavyKVTokens,
		"prefill_cost_model":        b.rates.prefillModel(),
		"decode_throughput_model":   b.rates.decodeModel(),
	})
	return vllmRouter(b, program, host, port, "--policy", "consistent_hash",
		"--enable-program-scheduling", "--program-scheduling-config-json", string(settings)), err
}

func smg(b *bed, program, host, port string, more ...string) []string {
	argv := append([]string{program, "launch", "--worker-urls"}, b.engines...)
	return append(append(argv, "--host", host, "--port", port), more...)
}

func peers() []arm {
	return []arm{
		peerArm("HAProxy stick-table", "stick-table", peer{program: "haproxy", argv: haproxy}),
		peerArm("vllm-router sticky_least_loaded", "sticky_least_loaded", peer{
			program: "vllm-router",
			argv: func(b *bed, program, host, port string) ([]string, error) {
				return vllmRouter(b, program, host, port, "--policy", "sticky_least_loaded"), nil
			},
		}),
		peerArm("vllm-router program scheduling", "", peer{program: "vllm-router", argv: programs}),
		peerArm("smg cache_aware", "cache_aware", peer{
			program: "smg",
			argv: func(b *bed, program, host, port string) ([]string, error) {
				return smg(b, program, host, port, "--policy", "cache_aware"), nil
			},
		}),
	}
}

func peerArm(name, simulated string, p peer) arm {
	return arm{
		name: name, simulated: simulated,
		missing: func(b *bed) string {
			if b.find(p.program) == "" {
				return p.program + " is not installed"
			}
			return ""
		},
		start: func(ctx context.Context, b *bed) (string, func(), error) { return p.start(ctx, b, name) },
	}
}

// find is the path of a peer's program, or "".
func (b *bed) find(program string) string {
	found, _ := filepath.Glob(filepath.Join(b.Peers, "*", "bin", program))
	if len(found) > 0 {
		return found[len(found)-1]
	}
	for _, dir := range []string{"", "/usr/sbin/"} {
		if path, err := exec.LookPath(dir + program); err == nil {
			return path
		}
	}
	return ""
}

func (p peer) start(ctx context.Context, b *bed, name string) (string, func(), error) {
	address, err := process.FreeAddress()
	if err != nil {
		return "", nil, err
	}
	host, port, _ := strings.Cut(address, ":")
	argv, err := p.argv(b, b.find(p.program), host, port)
	if err != nil {
		return "", nil, err
	}
	run, err := process.Start(process.Command{Name: strings.ReplaceAll(name, " ", "-"), Argv: argv, Env: b.environ(), Dir: b.dir})
	if err != nil {
		return "", nil, err
	}
	stop := func() { run.Stop(5 * time.Second) }
	url := "http://" + address
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for _, path := range []string{"/health", "/v1/models"} {
		if err := run.Await(ctx, "answered "+path, process.Answers(b.client, url+path)); err != nil {
			stop()
			return "", nil, err
		}
	}
	return url, stop, nil
}
