package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) upgradeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "upgrade", Short: "Let the installed program take over from the running one", Args: noArgs,
		Long: `Starts warden anew from its program file, with its arguments and its
configuration as they are now, and lets it take over: the API's address stays
open, engines run on, and answers that have begun are finished by the old
process, which then ends. When the new one cannot start, nothing changes.
SIGHUP does the same for a warden that has no terminal.`,
		Example: "  warden upgrade",
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return a.ask(cmd.Context(), a.upgrade) }
	return cmd
}

func (a *app) upgrade(ctx context.Context, c *control.Client) error {
	before, err := c.Version(ctx)
	if err != nil {
		return err
	}
	next, err := c.Upgrade(ctx)
	if err != nil {
		return err
	}
	after, err := remote.AwaitPID(ctx, c, next.PID)
	if err != nil {
		return exit.Fail(exit.Failed, err, "its log says why; engines run on: `warden up` takes them over")
	}
	fmt.Fprintf(a.out, "pid %d (%s) -> pid %d (%s)\n", before.PID, before.Version, after.PID, after.Version)
	return nil
}
