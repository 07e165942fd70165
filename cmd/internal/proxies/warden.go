package proxies

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lm-warden/warden/cmd/internal/process"
	"github.com/lm-warden/warden/supervisor/control"
)

// Warden is a warden that runs with all its replicas ready.
type Warden struct {
	Running
	Status control.Status
}

// downLimit is how long `warden down` may take.
const downLimit = time.Minute

// StartWarden starts the program with a configuration and waits until the
// replicas it plans are ready and their KV caches known.
func (h Home) StartWarden(ctx context.Context, program string, config map[string]any, replicas int) (Warden, error) {
	listen, err := process.FreeAddress()
	if err != nil {
		return Warden{}, err
	}
	config["listen"] = listen
	text, err := yaml.Marshal(config)
	if err != nil {
		return Warden{}, err
	}
	file := filepath.Join(h.Dir, "warden.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return Warden{}, err
	}
	// Stays: its engines are no part of its group, and `warden down` ends them.
	run, err := process.Start(process.Command{
		Name: "warden", Argv: []string{program, "up", "--config", file, "--no-tui", "--progress", "plain"},
		Env: h.Environ(), Dir: h.Dir, Stays: true,
	})
	if err != nil {
		return Warden{}, err
	}
	w := Warden{Running: Running{Process: run}}
	err = run.Await(ctx, "had all replicas ready", func(ctx context.Context) (err error) {
		w.Status, err = h.wardenStatus(ctx, replicas)
		return err
	})
	if err != nil {
		run.Kill()
		return Warden{}, err
	}
	w.URL = w.Status.Listen
	return w, nil
}

// wardenStatus is what warden says once all its replicas are ready and measured.
func (h Home) wardenStatus(ctx context.Context, replicas int) (control.Status, error) {
	c, err := control.Dial(ctx, filepath.Join(h.Dir, "warden", "default", "control.sock"))
	if err != nil {
		return control.Status{}, err
	}
	defer c.Close()
	status, err := c.Status(ctx)
	if err != nil {
		return status, err
	}
	for _, r := range status.Replicas {
		if r.State != control.StateReady || r.Engine == nil || r.Engine.KVCapacityTokens == 0 {
			return status, fmt.Errorf("replica %s is %s (%s)", r.ID, r.State, r.Note)
		}
	}
	if len(status.Replicas) != replicas {
		return status, fmt.Errorf("%d replicas, want %d", len(status.Replicas), replicas)
	}
	return status, nil
}

// WardenDown ends warden and its engines, also those of one that is gone.
func (h Home) WardenDown(program string) error {
	down, err := process.Start(process.Command{Name: "down", Argv: []string{program, "down"}, Env: h.Environ(), Dir: h.Dir})
	if err != nil {
		return err
	}
	select {
	case <-down.Ended():
		return nil
	case <-time.After(downLimit):
		down.Stop(0)
		return errors.New("`warden down` does not end: engines may still run")
	}
}

// WardenVersion is what the program says; "" when it says nothing.
func WardenVersion(ctx context.Context, program string) string {
	text, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	return line
}
