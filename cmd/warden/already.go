package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/daemon"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
)

// alreadyRunning ends a second `up`: fine behind when it asks for what runs, an
// error naming the difference when not.
func (a *app) alreadyRunning(ctx context.Context, c *control.Client, cfg configs.Config, f *upFlags) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	raw, err := c.Config(ctx)
	if err != nil {
		return err
	}
	var running map[string]json.RawMessage
	if err := json.Unmarshal(raw, &running); err != nil {
		return fmt.Errorf("cannot read the configuration of the running warden: %w", err)
	}
	var served []string
	for _, m := range status.Models {
		served = append(served, m.Alias)
	}
	text := fmt.Sprintf("already running (pid %d, up %s, serving %s)", status.PID, words.Short(time.Since(status.StartedAt)), strings.Join(served, ", "))
	if keys := daemon.Differing(cfg, running); len(keys) > 0 {
		return exit.Fail(exit.Failed, fmt.Errorf("%s with other settings: %s", text, strings.Join(keys, ", ")),
			"`warden down` first, or give this one another --name and --listen")
	}
	if f.detach {
		fmt.Fprintf(a.err, "%s: `warden top`\n", text)
		return nil
	}
	return exit.Fail(exit.Failed, errors.New(text), "`warden top` to watch it, `warden down` to stop it")
}
