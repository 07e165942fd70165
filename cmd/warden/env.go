package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/clients"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) envCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "env {" + strings.Join(clients.Names(), "|") + "}",
		Short: "Print how to point a client at warden",
		Long: `Prints the configuration of a client for the running warden, ready to paste:
address, model and context length, and the switches that keep the beginning of
its prompts the same from turn to turn, so that the prefix cache can be used.
Where warden asks for API keys the client is told to take one from WARDEN_KEY.`,
		Example:   "  eval \"$(warden env claude-code)\" && claude\n  warden env codex >~/.codex/warden.config.toml && codex --profile warden",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: clients.Names(),
	}
	model := cmd.Flags().String("model", "", "the model to ask for, by `NAME`, when several are served")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	_ = cmd.RegisterFlagCompletionFunc("model", a.completeServed())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at, err := a.endpoint(cmd.Context(), *model)
		if err != nil {
			return err
		}
		s := clients.Of(args[0], at)
		if *asJSON {
			return a.printJSON(s)
		}
		_, err = fmt.Fprint(a.out, s.Text())
		return err
	}
	return cmd
}

// endpoint describes the running warden, or without one what the configuration
// would start.
func (a *app) endpoint(ctx context.Context, model string) (at clients.Endpoint, err error) {
	err = a.ask(ctx, func(ctx context.Context, c *control.Client) error {
		status, err := c.Status(ctx)
		if err != nil {
			return err
		}
		m, err := remote.FindModel(status, model)
		at = clients.Endpoint{URL: clients.Reachable(status.Listen), Model: m.Alias, ContextTokens: m.MaxModelLen, Running: true}
		if a := status.Access; a != nil {
			at.Keys = len(a.Keys) > 0
			if a.TLS != nil {
				at.Certificate = a.TLS.Certificate
			}
		}
		return err
	})
	if !errors.Is(err, control.ErrNoDaemon) {
		return at, err
	}
	loaded, err := a.loadConfig(nil)
	if err != nil {
		return clients.Endpoint{}, err
	}
	cfg := loaded.Config
	if model == "" && len(cfg.Models) == 1 {
		model = cfg.Models[0].Alias
	}
	return clients.Endpoint{
		URL: clients.Reachable(cfg.URL(cfg.Listen)), Model: cmp.Or(model, clients.UnnamedModel),
		Keys: cfg.APIKeysFile != "", Certificate: cfg.TLSCert,
	}, nil
}
