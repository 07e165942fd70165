package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/manual"
)

// docsCommand writes the manual pages; it is for packagers, hence hidden.
func (a *app) docsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docs DIR", Short: "Write the manual pages into a folder", Hidden: true, Args: argCount(1, 1, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := manual.WritePages(cmd.Root(), args[0], version); err != nil {
				return fmt.Errorf("cannot write the manual pages: %w", err)
			}
			fmt.Fprintf(a.out, "manual pages in %s\n", args[0])
			return nil
		},
	}
}
