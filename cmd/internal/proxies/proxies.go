// Package proxies starts what measurements compare in front of engines: warden
// itself, HAProxy, nginx, vllm-router and smg, each with the settings in which
// it does best at keeping conversations together.
//
// Reading order:
//
//	proxies.go   Home, Find, Start: where programs are found and how they run
//	peers.go     HAProxy, nginx, vllm-router, smg: their command lines
//	warden.go    warden with a configuration, ready, and what it says of itself
//	machine.go   what it all runs on
//
// scripts/peers.sh installs the peers.
package proxies

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/process"
)

// Home is where the proxies of one run live.
type Home struct {
	Dir    string       // configurations, logs and sockets: a short path
	Peers  string       // folder of installed peers, each with a bin below it
	Client *http.Client // asks whether they are ready
}

// Running is a proxy that answers.
type Running struct {
	URL     string
	Process *process.Process
}

// Figures of waiting.
const (
	readyLimit = 30 * time.Second // of a router whose engines run
	stopGrace  = 5 * time.Second
)

// Stop ends it.
func (r Running) Stop() { r.Process.Stop(stopGrace) }

// Find is the path of a peer's program, or "".
func (h Home) Find(program string) string {
	found, _ := filepath.Glob(filepath.Join(h.Peers, "*", "bin", program))
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

// Environ is what warden and its peers see: nothing of the user's settings.
func (h Home) Environ() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.Dir}
	for _, name := range []string{"XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"} {
		env = append(env, name+"="+h.Dir)
	}
	return env
}

// Start starts a peer on a free port of loopback and waits until it answers.
func (h Home) Start(ctx context.Context, name string, p Peer) (Running, error) {
	address, err := process.FreeAddress()
	if err != nil {
		return Running{}, err
	}
	host, port, _ := strings.Cut(address, ":")
	argv, err := p.Argv(h, h.Find(p.Program), host, port)
	if err != nil {
		return Running{}, err
	}
	run, err := process.Start(process.Command{
		Name: strings.ReplaceAll(name, " ", "-"), Argv: argv, Env: h.Environ(), Dir: h.Dir,
	})
	if err != nil {
		return Running{}, err
	}
	out := Running{URL: "http://" + address, Process: run}
	ctx, cancel := context.WithTimeout(ctx, readyLimit)
	defer cancel()
	for _, path := range []string{"/health", "/v1/models"} {
		if err := run.Await(ctx, "answered "+path, process.Answers(h.Client, out.URL+path)); err != nil {
			out.Stop()
			return Running{}, err
		}
	}
	return out, nil
}

// Version is the peer's version as its program or its folder says; "" when
// neither does.
func (h Home) Version(ctx context.Context, program string) string {
	path := h.Find(program)
	if path == "" {
		return ""
	}
	// Folders of installed peers are named by it, and the Python ones need
	// seconds to say it.
	folder := filepath.Base(filepath.Dir(filepath.Dir(path)))
	if v, ok := strings.CutPrefix(folder, program+"-"); ok {
		return v
	}
	text, err := exec.CommandContext(ctx, path, "-v").CombinedOutput()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}

// Versions are those of the programs that are installed.
func (h Home) Versions(ctx context.Context, programs ...string) map[string]string {
	out := map[string]string{}
	for _, p := range slices.Compact(slices.Sorted(slices.Values(programs))) {
		if v := h.Version(ctx, p); v != "" {
			out[p] = v
		}
	}
	return out
}
