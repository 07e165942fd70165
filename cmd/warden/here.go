package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui"
)

// upHere runs the daemon in this process: services and pipes. The first signal
// drains, the second kills.
func (a *app) upHere(cfg configs.Config, f *upFlags, mode tui.ProgressMode) error {
	onHangup := hangupUpgrades
	if isTerminal(a.in) || isTerminal(a.out) || isTerminal(a.err) {
		onHangup = hangupStops
	}
	ctx, signals := a.watchSignals(context.Background(), onHangup)
	defer signals.close()
	d, err := newDaemon(cfg, a.demoOf(f), newLogger(a.err, mode))
	if err != nil {
		return err
	}
	return a.runHere(ctx, d, signals, f, mode)
}

// runHere runs the daemon and shows its start.
func (a *app) runHere(ctx context.Context, d *daemon, signals *signals, f *upFlags, mode tui.ProgressMode) error {
	progressCtx, stopProgress := context.WithCancel(ctx)
	defer stopProgress()
	shown := make(chan error, 1)
	go func() { shown <- a.progressOf(progressCtx, d.cfg, f, mode) }()
	go d.upgradeOnHangup(signals)
	go d.killOn(signals.second())
	ended := make(chan error, 1)
	go func() { ended <- d.run(ctx) }()
	var startErr error
	stopping := d.stopping
	for {
		select {
		case <-stopping:
			stopping = nil
			a.tellStopping(d, mode)
		case startErr = <-shown:
			if startErr != nil {
				d.stop(0)
			}
			shown = nil
		case err := <-ended:
			stopProgress()
			if signals.count() > 1 {
				return errForced
			}
			return errors.Join(startErr, err)
		}
	}
}

// tellStopping says at once that a stop was heard and how long it may take.
func (a *app) tellStopping(d *daemon, mode tui.ProgressMode) {
	switch {
	case d.drain == 0 || mode == tui.ProgressQuiet:
	case mode == tui.ProgressTTY:
		fmt.Fprintf(a.err, "stopping: %s in flight, up to %s; Ctrl-C again to kill\n", count(d.held(), "request", "requests"), d.drain)
	default:
		d.log.Warn("stopping", "held", d.held(), "drain", d.drain)
	}
}

// progressOf shows the start as a client of the daemon's socket would.
func (a *app) progressOf(ctx context.Context, cfg configs.Config, f *upFlags, mode tui.ProgressMode) error {
	client, err := control.Dial(ctx, controlSocket(cfg.Name))
	if err != nil {
		return nil // the daemon did not come up; its own error says why
	}
	defer client.Close()
	opts, err := a.progressOptions(f, mode)
	if err != nil {
		return err
	}
	if err := tui.Progress(ctx, client, a.err, opts); err != nil && ctx.Err() == nil && !errors.Is(err, tui.ErrDaemonEnded) {
		return fail(exitStart, err, hintOf(err))
	}
	return nil
}

func (a *app) progressOptions(f *upFlags, mode tui.ProgressMode) (tui.ProgressOptions, error) {
	theme, err := a.theme(f.ascii, a.err)
	return tui.ProgressOptions{Mode: mode, Theme: theme, Size: func() (int, int) { return screenSize(a.err) }}, err
}

// runLeashed is the daemon behind a terminal: see behind.go.
func (a *app) runLeashed(cfg configs.Config, f *upFlags) error {
	leash, out := os.NewFile(leashFD, "leash"), os.NewFile(reportFD, "report")
	if leash == nil || out == nil {
		return fail(exitUsage, errors.New("--leash is for warden itself"), "")
	}
	ctx, signals := a.watchSignals(context.Background(), hangupUpgrades)
	defer signals.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	d, err := newDaemon(cfg, a.demoOf(f), newLogger(a.err, tui.ProgressPlain))
	_ = json.NewEncoder(out).Encode(reportOf(err)) // the reader may be gone; the leash tells
	out.Close()
	if err != nil {
		return &silentExit{code: codeOf(err)}
	}
	go func() {
		if word, _ := bufio.NewReader(leash).ReadString('\n'); word != detachWord {
			stop()
			return
		}
		d.nobodyWaits()
	}()
	go d.upgradeOnHangup(signals)
	go d.killOn(signals.second())
	return d.run(ctx)
}
