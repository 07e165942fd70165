package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
)

// Exit codes; `warden help exit-codes` prints them.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNoDaemon  = 3
	exitConfig    = 4
	exitPreflight = 5
	exitStart     = 6
	exitForced    = 130
)

// exitCodes is the list that help and manual print.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitOK, "done; also a stop after Ctrl-C or SIGTERM"},
	{exitFailed, "failed; `warden status`: not every replica is ready"},
	{exitUsage, "wrong use of a flag or argument"},
	{exitNoDaemon, "no warden is running"},
	{exitConfig, "the configuration is invalid"},
	{exitPreflight, "a check before the start failed (GPU, vLLM, port)"},
	{exitStart, "the start failed: no replica became ready"},
	{exitForced, "forced by a second Ctrl-C"},
}

func exitCodesText() string {
	text := "Exit codes of every command:\n\n"
	for _, c := range exitCodes {
		text += fmt.Sprintf("  %-4d %s\n", c.code, c.meaning)
	}
	return text
}

// failure is an error with an exit code and a way out.
type failure struct {
	code int
	err  error
	fix  string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }
func (f *failure) Hint() string {
	if f.fix != "" || f.err == nil {
		return f.fix
	}
	return hintOf(f.err)
}

// fail wraps err for an exit code; a nil err stays nil.
func fail(code int, err error, fix string) error {
	if err == nil {
		return nil
	}
	return &failure{code: code, err: err, fix: fix}
}

// wrongUse is a usage error: its command's usage is printed with it.
type wrongUse struct {
	error
	cmd *cobra.Command
}

func usageError(cmd *cobra.Command, err error) error { return &wrongUse{error: err, cmd: cmd} }

// errForced is a second Ctrl-C.
var errForced = errors.New("killed on the second signal")

// report prints err for a person and returns the exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	var silent *silentExit
	if errors.As(err, &silent) {
		return silent.code
	}
	code := codeOf(err)
	if code == exitOK {
		return exitOK
	}
	fmt.Fprintf(a.err, "error: %v\n", err)
	if fix := hintOf(err); fix != "" {
		fmt.Fprintf(a.err, "  fix: %s\n", fix)
	}
	var use *wrongUse
	if errors.As(err, &use) {
		_ = writeUsage(a.err, use.cmd)
	}
	return code
}

// silentExit ends with a code and prints nothing: the command said it all.
type silentExit struct{ code int }

func (s *silentExit) Error() string { return fmt.Sprintf("exit code %d", s.code) }

func codeOf(err error) int {
	var f *failure
	var use *wrongUse
	var key *configs.KeyError
	switch {
	case errors.Is(err, errForced):
		return exitForced
	case errors.As(err, &f):
		return f.code
	case errors.As(err, &use):
		return exitUsage
	case errors.Is(err, control.ErrNoDaemon):
		return exitNoDaemon
	case errors.As(err, &key):
		return exitConfig
	case errors.Is(err, context.Canceled):
		return exitOK
	}
	return exitFailed
}

func hintOf(err error) string {
	var hinter interface{ Hint() string }
	if errors.As(err, &hinter) {
		return hinter.Hint()
	}
	var refused *control.Error
	if errors.As(err, &refused) {
		return refused.Hint
	}
	return ""
}

func exitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesText(),
	}
}
