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
	ch     chan os.Signal
	n      atomic.Int32
	forced chan struct{}
	done   chan struct{}
	once   sync.Once
}

// watchSignals takes over SIGINT, SIGTERM and SIGHUP. close gives them back.
func (a *app) watchSignals(ctx context.Context) (context.Context, *signals) {
	ctx, cancel := context.WithCancel(ctx)
	s := &signals{ch: make(chan os.Signal, 4), forced: make(chan struct{}), done: make(chan struct{})}
	signal.Notify(s.ch, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		defer cancel()
		for {
			select {
			case <-s.done:
				return
			case <-s.ch:
				cancel()
				if s.n.Add(1) == 2 {
					close(s.forced)
				}
			}
		}
	}()
	return ctx, s
}

func (s *signals) count() int              { return int(s.n.Load()) }
func (s *signals) second() <-chan struct{} { return s.forced }

func (s *signals) close() {
	s.once.Do(func() {
		signal.Stop(s.ch)
		close(s.done)
	})
}
