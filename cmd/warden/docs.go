package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// docsCommand writes the manual pages; it is for packagers, hence hidden.
func (a *app) docsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docs DIR", Short: "Write the manual pages into a folder", Hidden: true, Args: argCount(1, 1, "DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "WARDEN", Section: "1", Source: "warden " + version}, args[0]); err != nil {
				return fmt.Errorf("cannot write the manual pages: %w", err)
			}
			fmt.Fprintf(a.out, "manual pages in %s\n", args[0])
			return nil
		},
	}
}
