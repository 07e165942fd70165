package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/shim"
)

// dial reaches the running warden, this user's own or else the system
// service's, or says that there is none.
func (a *app) dial(ctx context.Context) (*control.Client, error) {
	name, err := a.wardenName()
	if err != nil {
		return nil, err
	}
	client, err := control.Dial(ctx, paths.ControlSocket(name))
	if errors.Is(err, control.ErrNoDaemon) && paths.Exists(paths.ServiceSocket(name)) {
		return control.Dial(ctx, paths.ServiceSocket(name))
	}
	return client, withOthers(withLeft(err, plan.LeftEngines(paths.RuntimeDir(name))), name)
}

// withLeft adds to "no warden" the engines that one left which is gone.
func withLeft(err error, left []shim.State) error {
	if !errors.Is(err, control.ErrNoDaemon) || len(left) == 0 {
		return err
	}
	names := make([]string, len(left))
	for i, s := range left {
		names[i] = fmt.Sprintf("%s (pid %d)", s.Replica, s.PID)
	}
	return exit.Fail(exit.NoDaemon, fmt.Errorf("%w; one that is gone left %s running: %s", err,
		words.Count(len(left), "engine", "engines"), strings.Join(names, ", ")), "`warden up` takes them over, `warden down` ends them")
}

// wardenName is --name, or what the configuration says.
func (a *app) wardenName() (string, error) {
	if a.flags.name != "" {
		return a.flags.name, nil
	}
	loaded, err := a.loadConfig(nil)
	if err != nil {
		return "", err
	}
	if err := configs.CheckName(loaded.Config.Name); err != nil {
		return "", exit.Fail(exit.Config, fmt.Errorf("name %w", err), "")
	}
	return loaded.Config.Name, nil
}

// ask runs f against the running warden.
func (a *app) ask(ctx context.Context, f func(context.Context, *control.Client) error) error {
	client, err := a.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	return f(ctx, client)
}

// printJSON writes v as one indented document.
func (a *app) printJSON(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// completionBudget is how long completion waits for a daemon; it then offers
// nothing rather than stall the user's shell.
const completionBudget = 200 * time.Millisecond

// completeReplicas offers the names of the running replicas.
func (a *app) completeReplicas(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var names []string
	a.completeFrom(cmd, func(s control.Status) {
		for _, r := range s.Replicas {
			if !slices.Contains(args, r.ID) {
				names = append(names, fmt.Sprintf("%s\t%s, %s", r.ID, r.Model, r.State))
			}
		}
	})
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeServed offers the served models; modes come first where the command
// takes one.
func (a *app) completeServed(modes ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 && len(modes) > 0 {
			return modes, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		a.completeFrom(cmd, func(s control.Status) {
			for _, m := range s.Models {
				names = append(names, m.Alias+"\t"+m.Repo)
			}
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *app) completeFrom(cmd *cobra.Command, use func(control.Status)) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionBudget)
	defer cancel()
	_ = a.ask(ctx, func(ctx context.Context, c *control.Client) error { // silent on failure: it is only completion
		status, err := c.Status(ctx)
		if err == nil {
			use(status)
		}
		return err
	})
}

// completeCatalogue offers the short names of models.
func (a *app) completeCatalogue(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	loaded, err := a.loadConfig(nil)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, e := range configs.Merge(configs.Builtin(), loaded.Config.Catalogue) {
		names = append(names, e.Alias+"\t"+e.Repo)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
