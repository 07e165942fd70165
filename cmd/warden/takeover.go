package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui"
)

// takeoverFD is where a warden that takes over finds its end of the handover.
const takeoverFD = 3

// predecessor is the warden that this one takes over from.
type predecessor struct {
	channel *handover
	drained chan struct{} // closed when no request is left there
	gone    chan struct{} // closed when its process has ended
}

// runTakeover is the daemon that `warden upgrade` starts: see upgrade.go.
func (a *app) runTakeover(f *upFlags) error {
	channel, err := handoverOn(os.NewFile(takeoverFD, "handover"))
	if err != nil {
		return fail(exitUsage, fmt.Errorf("--takeover is for warden itself: %w", err), "`warden upgrade`")
	}
	defer channel.close()
	ctx, signals := a.watchSignals(context.Background(), hangupUpgrades)
	defer signals.close()
	mode, err := progressMode(f.progress, a)
	if f.leash {
		mode = tui.ProgressQuiet // the one before said in its log how the start went
	}
	d, err := a.succeed(f, newLogger(a.err, mode), channel, err)
	if reportErr := channel.sendReport(reportOf(err)); err != nil || reportErr != nil {
		return &silentExit{code: codeOf(errors.Join(err, reportErr))} // the one before tells it
	}
	if channel.hear() != wordGo {
		return d.release() // the one before changed its mind, or died
	}
	d.before = newPredecessor(channel, d.nobodyWaits)
	err = d.claim()
	if err == nil {
		err = d.assemble(runtimeDir(d.cfg.Name))
	}
	if err != nil {
		return errors.Join(err, d.release())
	}
	return a.runHere(ctx, d, signals, f, mode)
}

// succeed does all of a start that can fail before the one before lets go.
func (a *app) succeed(f *upFlags, log *slog.Logger, channel *handover, err error) (*daemon, error) {
	listener, receiveErr := channel.receiveListener()
	cfg, configErr := a.settle(f)
	if err := errors.Join(err, receiveErr); err != nil {
		return nil, err
	}
	if configErr != nil {
		return nil, configErr
	}
	d := emptyDaemon(cfg, a.demoOf(f), log)
	runtime, err := makeRuntimeDir(cfg.Name)
	if err == nil {
		err = d.prepare(runtime, listener)
	}
	if err != nil {
		return nil, errors.Join(err, d.release())
	}
	return d, nil
}

func reportOf(err error) report {
	if err == nil {
		return report{OK: true}
	}
	return report{Code: codeOf(err), Error: err.Error(), Fix: hintOf(err)}
}

// newPredecessor listens to what the one before has to say, to its end.
func newPredecessor(channel *handover, gone func()) *predecessor {
	p := &predecessor{channel: channel, drained: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(p.gone)
		defer gone()
		if channel.hear() == wordDrained {
			close(p.drained)
			channel.hear()
		} else {
			close(p.drained)
		}
	}()
	return p
}

// drain waits until the one before holds no request, at most until ctx ends:
// the engines that answer them are about to stop.
func (p *predecessor) drain(ctx context.Context) {
	if p == nil {
		return
	}
	_ = p.channel.say(wordHurry) // it may be gone
	select {
	case <-p.drained:
	case <-ctx.Done():
	}
}

// takeListener uses the socket that was passed on, unless the configuration now
// names another address.
func takeListener(address string, passed net.Listener) (net.Listener, error) {
	if passed == nil {
		return listen(address)
	}
	if sameAddress(address, passed.Addr().String()) {
		return passed, nil
	}
	l, err := listen(address)
	return l, errors.Join(err, passed.Close())
}

// sameAddress says whether a configured address may mean the one that a socket
// is bound to: port 0 means any.
func sameAddress(configured, bound string) bool {
	host, port, err := net.SplitHostPort(configured)
	boundHost, boundPort, boundErr := net.SplitHostPort(bound)
	if err != nil || boundErr != nil || port != "0" && port != boundPort {
		return false
	}
	a, b := net.ParseIP(host), net.ParseIP(boundHost)
	switch {
	case host == "" || a != nil && a.IsUnspecified():
		return b != nil && b.IsUnspecified()
	case a == nil: // a name: the socket was bound to one of its addresses
		return b != nil && !b.IsUnspecified()
	}
	return a.Equal(b)
}

var _ control.Upgrader = (*daemon)(nil)
