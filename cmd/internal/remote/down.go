package remote

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/launch"
)

// Down orders the stop, tells out of it, and follows the daemon until it is gone. It
// watches first, so that nothing of the stop is missed.
func Down(ctx context.Context, c *control.Client, req control.ShutdownRequest, out io.Writer) error {
	var running []string // replicas that are still to be told of
	seen, ordered := uint64(0), false
	for msg, err := range c.Watch(ctx) {
		if err != nil {
			if !ordered {
				return err
			}
			break // it went away, as ordered
		}
		news := msg.Recent
		if msg.Event != nil {
			news = append(news, *msg.Event)
		}
		for _, e := range news {
			if ordered && e.Seq > seen {
				tellStop(e, out)
				running = slices.DeleteFunc(running, func(id string) bool { return e.Kind == events.KindExited && id == e.Replica })
			}
			seen = max(seen, e.Seq)
		}
		if ordered || msg.Status == nil {
			continue
		}
		ordered = true
		for _, r := range msg.Status.Replicas {
			if r.PID != 0 {
				running = append(running, r.ID)
			}
		}
		if err := c.Shutdown(ctx, req); err != nil {
			return err
		}
	}
	if err := AwaitEnd(ctx, c.Socket()); err != nil {
		return err
	}
	if len(running) > 0 { // the stream ended before it told, or warden died in the middle of it
		ended, err := EndLeft(ctx, filepath.Dir(c.Socket()), req.Now, out)
		if err != nil {
			return err
		}
		for _, id := range running {
			if !slices.ContainsFunc(ended, func(what string) bool { return strings.HasPrefix(what, id) }) {
				fmt.Fprintf(out, "%s: stopped\n", id)
			}
		}
	}
	fmt.Fprintln(out, "stopped")
	return nil
}

// EndLeft ends engines whose warden died, now without letting them end by themselves, and says which.
func EndLeft(ctx context.Context, runtime string, now bool, out io.Writer) (ended []string, err error) {
	if now {
		ended, err = launch.SweepNow(ctx, runtime)
	} else {
		ended, err = launch.Sweep(ctx, runtime)
	}
	for _, what := range ended {
		fmt.Fprintf(out, "%s: ended, its warden was gone\n", what)
	}
	return ended, err
}

// tellStop prints what of a stop a person waits for.
func tellStop(e events.Event, out io.Writer) {
	switch e.Kind {
	case events.KindExited:
		fmt.Fprintf(out, "%s: stopped, %s\n", e.Replica, e.Text)
	case control.DaemonStopping:
		fmt.Fprintln(out, e.Text)
	}
}
