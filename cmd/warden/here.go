package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/lm-warden/warden/cmd/internal/behind"
	"github.com/lm-warden/warden/cmd/internal/daemon"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/signals"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui"
)

// upHere runs the daemon in this process: services and pipes. The first signal
// drains, the second kills.
func (a *app) upHere(cfg configs.Config, f *upFlags, mode tui.ProgressMode) error {
	onHangup := signals.HangupUpgrades
	if isTerminal(a.in) || isTerminal(a.out) || isTerminal(a.err) {
		onHangup = signals.HangupStops
	}
	ctx, sigs := signals.Watch(context.Background(), onHangup)
	defer sigs.Close()
	opts := daemonOptions(cfg, f, newLogger(a.err, mode, false))
	d, err := daemon.New(opts)
	if err != nil {
		return err
	}
	return a.runHere(ctx, d, opts.Log, sigs, f, mode)
}

// daemonOptions is what the daemon of this start is to serve.
func daemonOptions(cfg configs.Config, f *upFlags, log *slog.Logger) daemon.Options {
	opts := daemon.Options{Config: cfg, Log: log, Version: version, Revision: revision()}
	if f.Demo {
		opts.DemoSessions = f.demoLoad
	}
	return opts
}

// runTakeover is the daemon that `warden upgrade` starts.
func (a *app) runTakeover(f *upFlags) error {
	ctx, sigs := signals.Watch(context.Background(), signals.HangupUpgrades)
	defer sigs.Close()
	mode, modeErr := progressMode(f.progress, a)
	if f.leash {
		mode = tui.ProgressQuiet // the log tells how the start goes
	}
	log := newLogger(a.err, mode, f.leash)
	d, err := daemon.TakeOver(func() (daemon.Options, error) {
		cfg, err := a.settle(f)
		return daemonOptions(cfg, f, log), errors.Join(modeErr, err)
	})
	if d == nil || err != nil {
		return err
	}
	return a.runHere(ctx, d, log, sigs, f, mode)
}

// runHere runs the daemon and shows its start.
func (a *app) runHere(ctx context.Context, d *daemon.Daemon, log *slog.Logger, sigs *signals.Signals, f *upFlags, mode tui.ProgressMode) error {
	progressCtx, stopProgress := context.WithCancel(ctx)
	defer stopProgress()
	shown := make(chan error, 1)
	go func() { shown <- a.progressOf(progressCtx, d.Name(), f, mode) }()
	go d.UpgradeOn(sigs.Hangups())
	go d.KillOn(sigs.Second())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	var startErr error
	stopping := d.Stopping()
	for {
		select {
		case <-stopping:
			stopping = nil
			a.tellStopping(d, log, mode)
		case startErr = <-shown:
			if startErr != nil {
				d.Stop(0)
			}
			shown = nil
		case err := <-ended:
			stopProgress()
			if sigs.Count() > 1 {
				return exit.ErrForced
			}
			return errors.Join(startErr, err)
		}
	}
}

// tellStopping says at once that a stop was heard and how long it may take.
func (a *app) tellStopping(d *daemon.Daemon, log *slog.Logger, mode tui.ProgressMode) {
	switch {
	case d.DrainTime() == 0 || mode == tui.ProgressQuiet:
	case mode == tui.ProgressTTY:
		fmt.Fprintf(a.err, "stopping: %s in flight, up to %s; Ctrl-C again to kill\n", words.Count(d.Held(), "request", "requests"), d.DrainTime())
	default:
		log.Warn("stopping", "held", d.Held(), "drain", d.DrainTime())
	}
}

// progressOf shows the start as a client of the daemon's socket would.
func (a *app) progressOf(ctx context.Context, name string, f *upFlags, mode tui.ProgressMode) error {
	client, err := control.Dial(ctx, paths.ControlSocket(name))
	if err != nil {
		return nil // the daemon did not come up; its own error says why
	}
	defer client.Close()
	opts, err := a.progressOptions(f, mode)
	if err != nil {
		return err
	}
	if err := tui.Progress(ctx, client, a.err, opts); err != nil && ctx.Err() == nil && !errors.Is(err, tui.ErrDaemonEnded) {
		return exit.Fail(exit.Start, err, exit.HintOf(err))
	}
	return nil
}

func (a *app) progressOptions(f *upFlags, mode tui.ProgressMode) (tui.ProgressOptions, error) {
	theme, err := a.theme(f.ascii, a.err)
	return tui.ProgressOptions{Mode: mode, Theme: theme, Size: func() (int, int) { return screenSize(a.err) }}, err
}

// runLeashed is the daemon behind a terminal: see behind.go.
func (a *app) runLeashed(cfg configs.Config, f *upFlags) error {
	leash, err := behind.Hold()
	if err != nil {
		return err
	}
	ctx, sigs := signals.Watch(context.Background(), signals.HangupUpgrades)
	defer sigs.Close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d, err := daemon.New(daemonOptions(cfg, f, newLogger(a.err, tui.ProgressPlain, true)))
	leash.Report(err)
	if err != nil {
		return &exit.Silent{Code: exit.CodeOf(err)}
	}
	go func() {
		if leash.Detached() {
			d.NobodyWaits()
		} else {
			stop()
		}
	}()
	go d.UpgradeOn(sigs.Hangups())
	go d.KillOn(sigs.Second())
	return d.Run(ctx)
}
