package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) statusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Aliases: []string{"ps"}, Short: "Print each replica once",
		Long:    "Prints one line per replica. The exit code is 0 only if every replica is ready.",
		Example: "  warden status\n  warden status -o wide\n  warden status --json",
		Args:    noArgs,
	}
	var f statusForm
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON (base units, stable names)")
	output := cmd.Flags().StringP("output", "o", "", "`FORM` wide (more columns) or json")
	cmd.Flags().BoolVarP(&f.quiet, "quiet", "q", false, "print replica names only")
	watch := cmd.Flags().BoolP("watch", "w", false, "print again whenever a replica changes its state")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *output != "" && *output != "wide" && *output != "json" {
			return usageError(cmd, fmt.Errorf("output %q is not one of wide, json", *output))
		}
		f.json, f.wide = f.json || *output == "json", *output == "wide"
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return a.ask(ctx, func(ctx context.Context, c *control.Client) error {
			if *watch {
				return a.watchStatus(ctx, c, f)
			}
			status, err := c.Status(ctx)
			if err != nil {
				return err
			}
			if err := a.printStatus(status, f); err != nil {
				return err
			}
			if status.Count(control.StateReady) < len(status.Replicas) {
				return &exit.Silent{Code: exit.Failed}
			}
			return nil
		})
	}
	return cmd
}

// statusForm is how a status is printed.
type statusForm struct{ json, quiet, wide bool }

func (a *app) printStatus(s control.Status, f statusForm) error {
	switch {
	case f.json:
		return a.printJSON(s)
	case f.quiet:
		for _, r := range s.Replicas {
			fmt.Fprintln(a.out, r.ID)
		}
		return nil
	}
	return remote.WriteStatus(a.out, s, f.wide)
}

// watchStatus prints the status with every change of a replica's state, until
// the daemon ends or ctx does.
func (a *app) watchStatus(ctx context.Context, c *control.Client, f statusForm) error {
	last := ""
	for msg, err := range c.Watch(ctx) {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if msg.Status == nil {
			continue
		}
		states := ""
		for _, r := range msg.Status.Replicas {
			states += r.ID + " " + r.State + "\n"
		}
		if states == last {
			continue
		}
		last = states
		if err := a.printStatus(*msg.Status, f); err != nil {
			return err
		}
	}
	return nil
}
