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

// helpCommand is `warden help`: what it does not know is wrong use.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Explain a command", Example: "  warden help up",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			of, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, sub := range of.Commands() {
				if sub.IsAvailableCommand() || sub.IsAdditionalHelpTopicCommand() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of, rest, err := cmd.Root().Find(args)
			if err != nil { // cobra's own words about the root
				of, rest = cmd.Root(), args
			}
			check := noArgs
			if of.HasSubCommands() {
				check = onlyCommands
			}
			if err := check(of, rest); err != nil {
				return usageError(of, err)
			}
			return of.Help()
		},
	}
}
