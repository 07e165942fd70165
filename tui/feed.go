package tui

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/state"
)

const (
	reconnectAfter = time.Second
	orderTimeout   = 10 * time.Second
	logTail        = 500
	logQueue       = 256
)

// feed brings what the daemon says to the program, and carries out what the user asks for. It owns every goroutine of
// the dashboard.
type feed struct {
	src  Source
	send func(any)

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	following string             // replica whose log is read; only the program's goroutine changes it
	unfollow  context.CancelFunc // ends that

	before chan struct{} // closed when the latest order has an outcome; only the program's goroutine changes it
}

func newFeed(ctx context.Context, src Source, send func(any)) *feed {
	f := &feed{src: src, send: send}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

func (f *feed) start() {
	f.running.Go(f.watch)
	f.running.Go(f.tick)
}

// stop ends everything and waits for it. The program no longer runs, so nothing can block in send.
func (f *feed) stop() {
	f.cancel()
	f.running.Wait()
}

func (f *feed) tick() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case now := <-t.C:
			f.send(state.Ticked{At: now})
		}
	}
}

// watch keeps a stream open; a daemon that restarts is found again.
func (f *feed) watch() {
	for {
		var ended error
		for m, err := range f.src.Watch(f.ctx) {
			if err != nil {
				ended = err
				break
			}
			f.send(state.Told{Message: m, At: time.Now()})
		}
		if f.ctx.Err() != nil {
			return
		}
		f.send(state.Unreachable{Err: ended, At: time.Now()})
		if !f.pause(reconnectAfter) {
			return
		}
	}
}

func (f *feed) pause(d time.Duration) bool { return sleep(f.ctx, d) }

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// follow reads the log of another replica, or of none.
func (f *feed) follow(replica string) {
	if replica == f.following {
		return
	}
	if f.unfollow != nil {
		f.unfollow()
	}
	f.following, f.unfollow = replica, nil
	if replica == "" {
		return
	}
	ctx, cancel := context.WithCancel(f.ctx)
	f.unfollow = cancel
	f.running.Go(func() {
		defer cancel()
		for f.readLog(ctx, replica); sleep(ctx, 2*reconnectAfter); {
			f.readLog(ctx, replica)
		}
	})
}

// readLog passes lines on in batches of one frame: an engine may write thousands a second.
func (f *feed) readLog(ctx context.Context, replica string) {
	lines := make(chan string, logQueue)
	var failed error
	go func() { // ends before readLog does: lines is closed, and read until then
		defer close(lines)
		for l, err := range f.src.Logs(ctx, control.LogQuery{Replicas: []string{replica}, Tail: logTail, Follow: true}) {
			if err != nil {
				failed = err
				return
			}
			if l.Dropped > 0 {
				lines <- fmt.Sprintf("... %d lines lost ...", l.Dropped)
			}
			lines <- l.Text
		}
	}()
	batch := state.LogLines{Replica: replica, Reset: true}
	flush := time.NewTicker(frameTime)
	defer flush.Stop()
	for {
		select {
		case l, open := <-lines:
			if open {
				batch.Lines = append(batch.Lines, l)
				continue
			}
			if ctx.Err() == nil {
				batch.Err = failed
				f.send(batch)
			}
			return
		case <-flush.C:
			if len(batch.Lines) > 0 && ctx.Err() == nil {
				f.send(batch)
				batch = state.LogLines{Replica: replica}
			}
		}
	}
}

// carryOut gives the daemon an order and reports what came of it. Orders go out one after another: off and on, in that
// order, mean on.
func (f *feed) carryOut(intent state.Intent) {
	before, ended := f.before, make(chan struct{})
	f.before = ended
	f.running.Go(func() {
		defer close(ended)
		if before != nil {
			<-before
		}
		ctx, cancel := context.WithTimeout(f.ctx, orderTimeout)
		defer cancel()
		text, err := f.order(ctx, intent)
		f.send(state.Done{Of: intent, Text: text, Err: err, At: time.Now()})
	})
}

func (f *feed) order(ctx context.Context, intent state.Intent) (string, error) {
	actions := map[state.Deed]control.ReplicaAction{state.Restart: control.Restart, state.Drain: control.Drain, state.Undrain: control.Undrain, state.Retry: control.Retry}
	switch intent.Do {
	case state.AffinityOn, state.AffinityOff:
		c, err := f.src.SetAffinity(ctx, intent.Target, intent.Do == state.AffinityOn)
		if err != nil {
			return "", err
		}
		return affinityText(c), nil
	default:
		action, known := actions[intent.Do]
		if !known {
			return "", fmt.Errorf("the dashboard does not know order %d", intent.Do)
		}
		if _, err := f.src.Replica(ctx, intent.Target, action); err != nil {
			return "", err
		}
		return fmt.Sprintf("%s %s: ordered", action, intent.Target), nil
	}
}
