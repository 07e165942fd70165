// Package signals is what SIGINT, SIGTERM and SIGHUP mean to one run of warden.
package signals

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
)

// Signals counts the stop signals of one run: the first ends the context it
// came with, the second opens Second().
type Signals struct {
	ch      chan os.Signal
	n       atomic.Int32
	forced  chan struct{}
	hangups chan struct{} // a SIGHUP that means an upgrade
	done    chan struct{}
	once    sync.Once
}

// Hangup is what SIGHUP means.
type Hangup bool

const (
	HangupStops    Hangup = false // the terminal was closed
	HangupUpgrades Hangup = true  // nobody has a terminal: it was sent on purpose
)

// Watch takes over SIGINT, SIGTERM and SIGHUP. Close gives them back.
func Watch(ctx context.Context, onHangup Hangup) (context.Context, *Signals) {
	ctx, cancel := context.WithCancel(ctx)
	s := &Signals{
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
				if sig == syscall.SIGHUP && onHangup == HangupUpgrades {
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

func (s *Signals) hangUp() {
	select {
	case s.hangups <- struct{}{}:
	default: // one is waiting already
	}
}

// Count is how many stop signals came.
func (s *Signals) Count() int { return int(s.n.Load()) }

// Hangups yields each SIGHUP that means an upgrade.
func (s *Signals) Hangups() <-chan struct{} { return s.hangups }

// Second is closed by the second of them.
func (s *Signals) Second() <-chan struct{} { return s.forced }

// Close gives the signals back.
func (s *Signals) Close() {
	s.once.Do(func() {
		signal.Stop(s.ch)
		close(s.done)
	})
}
