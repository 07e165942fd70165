package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/lm-warden/warden/cmd/internal/behind"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/signals"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui"
)

// upBehind is `up -d` and `up` on a terminal.
func (a *app) upBehind(ctx context.Context, cfg configs.Config, f *upFlags, mode tui.ProgressMode) error {
	b, err := behind.Start(cfg.Name, os.Args[1:])
	if err != nil {
		return err
	}
	client, err := control.Dial(ctx, paths.ControlSocket(cfg.Name))
	if err != nil {
		return exit.Fail(exit.Start, err, "its log is "+b.Log())
	}
	defer client.Close()
	if f.detach && f.noWait {
		fmt.Fprintf(a.out, "starting behind: socket %s, log %s\n", client.Socket(), b.Log())
		return b.Detach()
	}
	ctx, sigs := signals.Watch(ctx, signals.HangupStops)
	defer sigs.Close()
	opts, err := a.progressOptions(f, mode)
	if err != nil {
		return err
	}
	err = tui.Progress(ctx, client, a.err, opts)
	switch {
	case sigs.Count() > 0:
		return a.stopBehind(b, client, sigs, cfg.Drain)
	case err != nil:
		return errors.Join(exit.Fail(exit.Start, err, exit.HintOf(err)), a.stopBehind(b, client, sigs, 0))
	case f.detach:
		return errors.Join(a.tellWhere(ctx, client, b), b.Detach())
	}
	return a.dashboard(ctx, b, client, f, sigs, cfg)
}

// tellWhere prints what a person needs of a warden that goes on behind.
func (a *app) tellWhere(ctx context.Context, client *control.Client, b *behind.Warden) error {
	status, err := client.Status(ctx)
	fmt.Fprintf(a.out, "api    %s\nsocket %s\nlog    %s\nwatch: warden top   stop: warden down   clients: warden env\n",
		status.Listen, client.Socket(), b.Log())
	return err
}

// dashboard shows the replicas until the person stops or leaves.
func (a *app) dashboard(ctx context.Context, b *behind.Warden, client *control.Client, f *upFlags, sigs *signals.Signals, cfg configs.Config) error {
	theme, err := a.theme(f.ascii, a.out)
	if err != nil {
		return err
	}
	result, err := tui.Run(ctx, client, tui.Options{Mode: tui.Up, Theme: theme, In: a.in, Out: a.out})
	if result.Action == tui.Detached {
		fmt.Fprintln(a.err, "left running: `warden top` to watch it again, `warden down` to stop it")
		return b.Detach()
	}
	return errors.Join(err, a.stopBehind(b, client, sigs, cfg.Drain))
}

// stopBehind drains and stops the warden behind; a second signal kills.
func (a *app) stopBehind(b *behind.Warden, client *control.Client, sigs *signals.Signals, drain time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if status, err := client.Status(ctx); err == nil {
		fmt.Fprintf(a.err, "stopping: %s in flight, up to %s; Ctrl-C again to kill\n", words.Count(status.Totals.Held, "request", "requests"), drain)
	}
	return b.Stop(client, drain, sigs.Second())
}
