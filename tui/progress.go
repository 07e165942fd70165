package tui

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
	"github.com/lm-warden/warden/tui/state"
)

// ProgressMode is how a start is told.
type ProgressMode string

const (
	ProgressTTY   ProgressMode = "tty"   // a picture that is drawn over
	ProgressPlain ProgressMode = "plain" // lines of a log
	ProgressJSON  ProgressMode = "json"  // the same, one JSON object each
	ProgressQuiet ProgressMode = "quiet" // nothing
)

// failureLines is how much of a failed replica's log is shown.
const failureLines = 20

// ErrDaemonEnded is returned by Progress when the daemon went away before what was waited for.
var ErrDaemonEnded = errors.New("the daemon ended")

// StartError says that no replica became ready and none will.
type StartError struct {
	Replicas []string
	Cause    string
	Fix      string
	Log      []string // last lines of the first replica's log
	LogDir   string
}

func (e *StartError) Error() string {
	return fmt.Sprintf("no replica became ready: %s: %s", strings.Join(e.Replicas, ", "), e.Cause)
}

// Hint is the way out, as far as it is known.
func (e *StartError) Hint() string {
	if e.Fix != "" {
		return e.Fix
	}
	if e.LogDir != "" {
		return "the whole log is in " + e.LogDir
	}
	return "`warden logs " + strings.Join(e.Replicas[:min(1, len(e.Replicas))], "") + " --previous`"
}

// ProgressOptions of Progress. The zero value waits silently for a start.
type ProgressOptions struct {
	Mode  ProgressMode // "" = quiet
	Theme Theme
	Size  func() (w, h int)                           // of the terminal; nil = 80x24
	Done  func(control.Status) (bool, error)          // what to wait for; nil = Started
	Stop  string                                      // how to stop, for the last lines; "" = "Ctrl-C"
	clock func() time.Time                            // nil = time.Now
	tick  func() (ticks <-chan time.Time, end func()) // nil = each second
}

func (o *ProgressOptions) fill() {
	if o.Size == nil {
		o.Size = func() (int, int) { return 80, 24 }
	}
	if o.Done == nil {
		o.Done = Started
	}
	if o.Stop == "" {
		o.Stop = "Ctrl-C"
	}
	if o.clock == nil {
		o.clock = time.Now
	}
	if o.tick == nil {
		o.tick = func() (<-chan time.Time, func()) {
			t := time.NewTicker(time.Second)
			return t.C, t.Stop
		}
	}
}

// Started reports whether a start is over: every replica is ready or has failed at least once, and one is ready. The
// error is a *StartError once none can become ready.
func Started(s control.Status) (bool, error) {
	var gaveUp []control.Replica
	ready, open := 0, 0
	for _, r := range s.Replicas {
		switch r.State {
		case control.StateReady, control.StateDraining, control.StateSuspect:
			ready++
		case control.StateParked, control.StateStuck, control.StateStopped:
			gaveUp = append(gaveUp, r)
		case control.StateBackoff:
			// comes back later; whoever waits for the others need not wait for it
		default:
			open++
		}
	}
	if len(s.Replicas) > 0 && len(gaveUp) == len(s.Replicas) {
		return false, startError(s, gaveUp)
	}
	return ready > 0 && open == 0, nil
}

func startError(s control.Status, gaveUp []control.Replica) *StartError {
	e := &StartError{Cause: "cause unknown", LogDir: s.LogDir}
	for i, r := range gaveUp {
		e.Replicas = append(e.Replicas, r.ID)
		if i > 0 {
			continue
		}
		if r.Note != "" {
			e.Cause = r.Note
		}
		if d := r.Diagnosis; d != nil && d.Cause != "" {
			e.Cause, e.Fix = d.Cause, d.Fix
		}
	}
	return e
}

// Progress tells on w how a start goes on, and returns when it is over: nil, *StartError, ErrDaemonEnded or ctx's error.
func Progress(ctx context.Context, src Source, w io.Writer, opts ProgressOptions) error {
	opts.fill()
	ctx, cancel := context.WithCancel(ctx)
	messages := make(chan watched)
	var reading sync.WaitGroup
	reading.Go(func() { readStatuses(ctx, src, messages) })
	defer reading.Wait()
	defer cancel()

	view := newProgressView(w, opts)
	ticks, stop := opts.tick()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			view.leave()
			return ctx.Err()
		case <-ticks:
			view.show(ctx, view.last)
		case m, open := <-messages:
			if !open || m.err != nil {
				view.leave()
				return endedError(ctx, m.err)
			}
			view.show(ctx, m.status)
			done, err := opts.Done(m.status)
			var failed *StartError
			if errors.As(err, &failed) && len(failed.Replicas) > 0 {
				failed.Log = lastLines(ctx, src, failed.Replicas[0])
				view.failed(failed)
			}
			if err != nil {
				view.leave()
				return err
			}
			if done {
				view.finish(ctx, m.status)
				return nil
			}
		}
	}
}

func endedError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDaemonEnded, err)
	default:
		return ErrDaemonEnded
	}
}

// watched is one status of the stream, or its end.
type watched struct {
	status control.Status
	err    error
}

// readStatuses passes on each status until the stream or ctx ends, then closes out.
func readStatuses(ctx context.Context, src Source, out chan<- watched) {
	defer close(out)
	for m, err := range src.Watch(ctx) {
		if err == nil && m.Status == nil {
			continue
		}
		next := watched{err: err}
		if m.Status != nil {
			next.status = state.Clean(*m.Status)
		}
		select {
		case out <- next:
		case <-ctx.Done():
			return
		}
	}
}

// lastLines is the end of a failed replica's log; what cannot be had is left out.
func lastLines(ctx context.Context, src Source, replica string) []string {
	ctx, cancel := context.WithTimeout(ctx, orderTimeout)
	defer cancel()
	var out []string
	for l, err := range src.Logs(ctx, control.LogQuery{Replicas: []string{replica}, Tail: failureLines}) {
		if err != nil {
			break
		}
		out = append(out, cell.Clean(l.Text))
	}
	return out[max(0, len(out)-failureLines):]
}

// progressView draws over its own last picture, or writes lines, or nothing.
type progressView struct {
	w     io.Writer
	opts  ProgressOptions
	seen  furthest
	plain *plainWriter
	last  control.Status
	at    time.Time // when last arrived
	drawn int       // lines of the last picture
	old   string    // the last picture
}

func newProgressView(w io.Writer, opts ProgressOptions) *progressView {
	v := &progressView{w: w, opts: opts, seen: furthest{}}
	if opts.Mode == ProgressPlain || opts.Mode == ProgressJSON {
		v.plain = newPlain(w, opts.Mode == ProgressJSON)
	}
	return v
}

// show draws a status, or the last one again with a newer clock.
func (v *progressView) show(ctx context.Context, s control.Status) {
	now := v.opts.clock()
	if s.Now.IsZero() {
		return // nothing known yet
	}
	if !s.Now.Equal(v.last.Now) {
		v.last, v.at = s, now
	}
	daemonNow := s.Now.Add(max(0, now.Sub(v.at)))
	switch {
	case v.plain != nil:
		v.plain.write(ctx, s, daemonNow)
	case v.opts.Mode == ProgressTTY:
		w, h := v.opts.Size()
		v.draw(startupLines(s, v.seen, daemonNow, w-1, h, v.opts.Theme)) // a full line would wrap on some terminals
	}
}

// draw replaces the last picture. Nothing hides the cursor, so nothing has to bring it back if we are killed.
func (v *progressView) draw(lines []string) {
	text := strings.Join(lines, "\n")
	if text == v.old {
		return
	}
	var b strings.Builder
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	b.WriteString("\r")
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	io.WriteString(v.w, b.String()) // a terminal that went away is no reason to stop the start
	v.drawn, v.old = len(lines), text
}

// leave ends the picture where it is.
func (v *progressView) leave() { v.drawn, v.old = 0, "" }

// finish writes what stays.
func (v *progressView) finish(ctx context.Context, s control.Status) {
	v.leave()
	switch {
	case v.plain != nil:
		v.plain.ready(ctx, s)
	case v.opts.Mode == ProgressTTY:
		io.WriteString(v.w, strings.Join(readyLines(s, v.opts.Stop, v.opts.Theme), "\n")+"\n")
	}
}

// failed writes the end of the log; the caller tells the error itself.
func (v *progressView) failed(e *StartError) {
	if v.opts.Mode != ProgressTTY && v.opts.Mode != ProgressPlain || len(e.Log) == 0 {
		return
	}
	v.leave()
	fmt.Fprintf(v.w, "last lines of %s:\n  %s\n", e.Replicas[0], strings.Join(e.Log, "\n  "))
	if e.LogDir != "" {
		fmt.Fprintf(v.w, "logs: %s\n", e.LogDir)
	}
}
