package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui"
)

func (a *app) topCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "top", Short: "Watch the replicas live", Args: noArgs,
		Example: "  warden top\n  warden top --once --ascii",
	}
	once := cmd.Flags().Bool("once", false, "print one picture and leave")
	view := cmd.Flags().Bool("view", false, "look only: no key changes anything")
	ascii := cmd.Flags().Bool("ascii", false, "ASCII only")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
			theme, err := a.theme(*ascii, a.out)
			if err != nil {
				return err
			}
			if *once || !isTerminal(a.in) || !isTerminal(a.out) {
				status, err := c.Status(ctx)
				if err != nil {
					return err
				}
				width, _ := screenSize(a.out)
				_, err = fmt.Fprint(a.out, tui.Once(status, width, 0, theme))
				return err
			}
			_, err = tui.Run(ctx, c, tui.Options{Mode: tui.Top, View: *view, Theme: theme, In: a.in, Out: a.out})
			return err
		})
	}
	return cmd
}

// screenSize is the terminal's, or 140 columns where output goes elsewhere.
func screenSize(out any) (width, height int) {
	if f, ok := out.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil {
			return w, h
		}
	}
	return 140, 40
}
