package main

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/supervisor/control"
)

// reapCommand is the service's ExecStopPost: it ends engines whose warden is
// gone for good. People have `warden down`.
func (a *app) reapCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reap", Short: "End engines whose warden is gone, unless systemd restarts it", Hidden: true, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if restartFollows(os.Getenv("SERVICE_RESULT"), os.Getenv("EXIT_STATUS")) {
				return nil
			}
			err := a.ask(cmd.Context(), func(context.Context, *control.Client) error { return nil })
			if !errors.Is(err, control.ErrNoDaemon) {
				return err // a warden that answers owns its engines
			}
			if err := a.sweep(cmd.Context(), err); !errors.Is(err, control.ErrNoDaemon) {
				return err
			}
			return nil // nothing was left
		},
	}
}

// noRestart are the exit codes that a restart cannot cure; they stand in the
// unit file too.
var noRestart = []string{"2", "4"} // exitUsage, exitConfig

// restartFollows says whether systemd starts the service again after it ended
// like this (systemd.exec(5), Restart=on-failure). A stop that took too long
// counts as an end: its engines hang, or warden did.
func restartFollows(result, status string) bool {
	switch result {
	case "", "success", "timeout", "start-limit-hit":
		return false
	case "exit-code":
		return !slices.Contains(noRestart, status)
	}
	return true // signal, core-dump, watchdog, oom-kill, protocol, resources
}
