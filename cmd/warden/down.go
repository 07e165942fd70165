package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

func (a *app) downCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the replicas and the warden", Args: noArgs,
		Long: `Lets held requests finish, stops every engine and waits until no process is
left. Engines whose warden is gone are ended as well.`,
		Example: "  warden down\n  warden down --now",
	}
	drain := cmd.Flags().Duration("drain", 0, "longest `TIME` for held requests, default what up was given")
	now := cmd.Flags().Bool("now", false, "do not wait for held requests")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *drain < 0 {
			return usageError(cmd, fmt.Errorf("--drain %v must not be negative", *drain))
		}
		err := a.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
			return a.shutDownAndWait(ctx, c, control.ShutdownRequest{Drain: control.Duration(*drain), Now: *now})
		})
		if errors.Is(err, control.ErrNoDaemon) {
			return a.sweep(cmd.Context(), err)
		}
		return err
	}
	return cmd
}

// shutDownAndWait orders the stop and follows the daemon until it is gone. It
// watches first, so that nothing of the stop is missed.
func (a *app) shutDownAndWait(ctx context.Context, c *control.Client, req control.ShutdownRequest) error {
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
				a.tellStop(e)
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
	if err := remote.AwaitEnd(ctx, c.Socket()); err != nil {
		return err
	}
	if len(running) > 0 { // the stream ended before it told, or warden died in the middle of it
		ended, err := a.endLeftovers(ctx, filepath.Dir(c.Socket()))
		if err != nil {
			return err
		}
		for _, id := range running {
			if !slices.ContainsFunc(ended, func(what string) bool { return strings.HasPrefix(what, id) }) {
				fmt.Fprintf(a.out, "%s: stopped\n", id)
			}
		}
	}
	fmt.Fprintln(a.out, "stopped")
	return nil
}

// endLeftovers ends engines whose warden died, and says which.
func (a *app) endLeftovers(ctx context.Context, runtime string) (ended []string, err error) {
	ended, err = supervisor.Sweep(ctx, runtime)
	for _, what := range ended {
		fmt.Fprintf(a.out, "%s: ended, its warden was gone\n", what)
	}
	return ended, err
}

// tellStop prints what of a stop a person waits for.
func (a *app) tellStop(e events.Event) {
	switch e.Kind {
	case events.KindExited:
		fmt.Fprintf(a.out, "%s: stopped, %s\n", e.Replica, e.Text)
	case control.DaemonStopping:
		fmt.Fprintln(a.out, e.Text)
	}
}

// sweep ends engines whose warden died. Without any, noDaemon stands.
func (a *app) sweep(ctx context.Context, noDaemon error) error {
	name, err := a.wardenName()
	if err != nil {
		return err
	}
	nothing := exit.Fail(exit.NoDaemon, fmt.Errorf("nothing to stop: %w", noDaemon), "if yours has another name: `warden down --name NAME`")
	if !paths.Exists(paths.RuntimeDir(name)) {
		return nothing
	}
	ended, err := a.endLeftovers(ctx, paths.RuntimeDir(name))
	if err == nil && len(ended) == 0 {
		return nothing
	}
	return err
}
