package main

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// signals counts the stop signals of one run: the first ends the context it
// came with, the second opens second().
type signals struct {
	ch      chan os.Signal
	n       atomic.Int32
	forced  chan struct{}
	hangups chan struct{} // a SIGHUP that means an upgrade
	done    chan struct{}
	once    sync.Once
}

// hangup is what SIGHUP means.
type hangup bool

const (
	hangupStops    hangup = false // the terminal was closed
	hangupUpgrades hangup = true  // nobody has a terminal: it was sent on purpose
)

// watchSignals takes over SIGINT, SIGTERM and SIGHUP. close gives them back.
func (a *app) watchSignals(ctx context.Context, onHangup hangup) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(ctx)
	s := &signals{
		ch: make(chan os.Signal, 4), forced: make(chan struct{}),
		hangups: make(chan struct{}, 1), done: make(chan struct{}),
	}
	taken := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // nohup ignores it for us
		taken = append(taken, syscall.SIGHUP)
	}
	signal.Notify(s.ch, taken...)
	go func() {
		defer cancel()
		for {
			select {
			case <-s.done:
				return
			case sig := <-s.ch:
				if sig == syscall.SIGHUP && onHangup == hangupUpgrades {
					s.hangUp()
					continue
				}
				cancel()
				if s.n.Add(1) == 2 {
					close(s.forced)
				}
			}
		}
	}()
	return ctx, s
}

func (s *signals) hangUp() {
	select {
	case s.hangups <- struct{}{}:
	default: // one is waiting already
	}
}

func (s *signals) count() int              { return int(s.n.Load()) }
func (s *signals) second() <-chan struct{} { return s.forced }

func (s *signals) close() {
	s.once.Do(func() {
		signal.Stop(s.ch)
		close(s.done)
	})
}
