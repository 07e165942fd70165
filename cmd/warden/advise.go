package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/advise"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/control/advice"
)

func (a *app) adviseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "advise", Short: "Say whether the conversations fit the KV cache, and what would help", Args: noArgs,
		Long: `Compares what the conversations of the last hour needed with what the KV cache
holds, and says what would help on this machine, with figures: fewer of them at
once, admission, a tier in host memory, an 8-bit KV cache, tensor parallelism, a
shorter context. What is in brackets is not possible here, and why. Without load
it says so.`,
		Example: "  warden advise\n  warden advise --json",
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON (configs/advise.schema.json)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
			history, err := c.History(ctx)
			if err != nil {
				return err
			}
			status, err := c.Status(ctx)
			if err != nil {
				return err
			}
			report := advice.Advise(history, status)
			if *asJSON {
				return a.printJSON(report)
			}
			return advise.Print(a.out, report)
		})
	}
	return cmd
}
