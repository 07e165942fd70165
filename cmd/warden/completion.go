package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// completionCommand prints the script that makes a shell complete warden's
// commands, flags, and the names of running replicas and models.
func (a *app) completionCommand() *cobra.Command {
	scripts := map[string]func(*cobra.Command) error{
		"bash": func(root *cobra.Command) error { return root.GenBashCompletionV2(a.out, true) },
		"zsh":  func(root *cobra.Command) error { return root.GenZshCompletion(a.out) },
		"fish": func(root *cobra.Command) error { return root.GenFishCompletion(a.out, true) },
	}
	return &cobra.Command{
		Use: "completion {bash|zsh|fish}", Short: "Print a shell's completion script", Args: argCount(1, 1, "bash, zsh or fish"),
		Long: `Prints a script that lets the shell complete commands, flags and the names of
running replicas and served models.`,
		Example: `  warden completion bash > ~/.local/share/bash-completion/completions/warden
  warden completion zsh > "${fpath[1]}/_warden"
  warden completion fish > ~/.config/fish/completions/warden.fish`,
		ValidArgs: []cobra.Completion{"bash", "zsh", "fish"},
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := scripts[args[0]]
			if !ok {
				return usageError(cmd, fmt.Errorf("%q is not one of bash, zsh, fish", args[0]))
			}
			return write(cmd.Root())
		},
	}
}
