package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/manual"
)

// wrongUse is a usage error: its command's usage is printed with it.
type wrongUse struct {
	error
	cmd *cobra.Command
}

func usageError(cmd *cobra.Command, err error) error {
	return &wrongUse{error: exit.Fail(exit.Usage, err, ""), cmd: cmd}
}

func (w *wrongUse) Unwrap() error { return w.error }

// report prints err for a person and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exit.OK
	}
	var silent *exit.Silent
	if errors.As(err, &silent) {
		return silent.Code
	}
	code := exit.CodeOf(err)
	if code == exit.OK {
		return exit.OK
	}
	fmt.Fprintf(a.err, "error: %v\n", err)
	if fix := exit.HintOf(err); fix != "" {
		fmt.Fprintf(a.err, "  fix: %s\n", fix)
	}
	var use *wrongUse
	if errors.As(err, &use) {
		_ = manual.WriteUsage(a.err, use.cmd)
	}
	return code
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean", Long: manual.ExitCodes(),
	}
}
