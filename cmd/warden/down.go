package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) downCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "down", Short: "Stop the replicas and the warden", Args: noArgs,
		Long: `Lets held requests finish, stops every engine and waits until no process is
left. Engines whose warden is gone are ended as well.`,
		Example: "  warden down\n  warden down --now",
	}
	drain := cmd.Flags().Duration("drain", 0, "longest `TIME` for held requests, default what up was given")
	now := cmd.Flags().Bool("now", false, "do not wait for held requests, and kill what does not end within 2s")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *drain < 0 {
			return usageError(cmd, fmt.Errorf("--drain %v must not be negative", *drain))
		}
		err := a.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
			return remote.Down(ctx, c, control.ShutdownRequest{Drain: control.Duration(*drain), Now: *now}, a.out)
		})
		if errors.Is(err, control.ErrNoDaemon) {
			return a.sweep(cmd.Context(), *now, err)
		}
		return err
	}
	return cmd
}

// sweep ends engines whose warden died. Without any, noDaemon stands.
func (a *app) sweep(ctx context.Context, now bool, noDaemon error) error {
	name, err := a.wardenName()
	if err != nil {
		return err
	}
	nothing := exit.Fail(exit.NoDaemon, fmt.Errorf("nothing to stop: %w", noDaemon), "if yours has another name: `warden down --name NAME`")
	if !paths.Exists(paths.RuntimeDir(name)) {
		return nothing
	}
	ended, err := remote.EndLeft(ctx, paths.RuntimeDir(name), now, a.out)
	if err == nil && len(ended) == 0 {
		return nothing
	}
	return err
}
