package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/service"
	"github.com/lm-warden/warden/supervisor/control"
)

// reapCommand is the service's ExecStopPost: it ends engines whose warden is
// gone for good. People have `warden down`.
func (a *app) reapCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reap", Short: "End engines whose warden is gone, unless systemd restarts it", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if service.RestartFollows(os.Getenv("SERVICE_RESULT"), os.Getenv("EXIT_STATUS")) {
				return nil
			}
			err := a.ask(cmd.Context(), func(context.Context, *control.Client) error { return nil })
			if !errors.Is(err, control.ErrNoDaemon) {
				return err // a warden that answers owns its engines
			}
			if err := a.sweep(cmd.Context(), false, err); !errors.Is(err, control.ErrNoDaemon) {
				return err
			}
			return nil // nothing was left
		},
	}
}
