package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// argCount checks the number of arguments; names are what the command takes,
// in order, for its message.
func argCount(least, most int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least {
			return fmt.Errorf("%s: %s is missing", cmd.CommandPath(), names[len(args)])
		}
		if len(args) > most {
			return fmt.Errorf("%s: unexpected argument %q", cmd.CommandPath(), args[most])
		}
		return nil
	}
}

var noArgs = argCount(0, 0)

// onlyCommands refuses arguments where a command was meant, and names the
// nearest one.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", strings.TrimPrefix(cmd.CommandPath()+" "+args[0], "warden "))
	cmd.SuggestionsMinimumDistance = 2
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		err = fmt.Errorf("%w, did you mean %s?", err, strings.Join(near, " or "))
	}
	return usageError(cmd, err)
}
