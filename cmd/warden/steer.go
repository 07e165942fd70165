package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) affinityCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "affinity {on|off|affinity|admission|balance|show} [MODEL]",
		Short: "Choose how a model's requests are placed, live",
		Long: `Chooses how a model's requests are placed from the next one on, without
restarting anything. Sessions stay known, so that each finds its home again.

  affinity   a session stays on its replica until that has too much to do
  admission  also lets only as many sessions run as the KV caches hold; the
             others wait for a place: more done and half the session time at
             overload, longer waits for first turns
  balance    every request goes to the least loaded replica
  off        the same as balance
  on         affinity or admission, whichever was chosen last`,
		Example: "  warden affinity off qwen3-4b\n  warden affinity admission\n  warden affinity show",
		Args:    argCount(1, 2, "on, off, a policy or show"),
	}
	choices := []string{"on", "off", control.PolicyAffinity, control.PolicyAdmission, control.PolicyBalance, "show"}
	cmd.ValidArgsFunction = a.completeServed(choices...)
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(choices, args[0]) {
			return usageError(cmd, fmt.Errorf("%q is not one of %s", args[0], strings.Join(choices, ", ")))
		}
		return a.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
			if args[0] == "show" {
				return a.showAffinity(ctx, c, args[1:], *asJSON)
			}
			model, err := theModel(ctx, c, args[1:])
			if err != nil {
				return err
			}
			change, err := setAffinity(ctx, c, model.Alias, args[0])
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(change)
			}
			fmt.Fprintf(a.out, "affinity %s: %s -> %s (%s known)\n", change.Model, onOff(change.Old), onOff(change.New), words.Count(change.SessionsLive, "session stays", "sessions stay"))
			return nil
		})
	}
	return cmd
}

func setAffinity(ctx context.Context, c *control.Client, model, choice string) (control.AffinityChange, error) {
	if choice == "on" || choice == "off" {
		return c.SetAffinity(ctx, model, choice == "on")
	}
	return c.SetPolicy(ctx, model, choice)
}

// onOff names a policy the way the command does.
func onOff(policy string) string {
	if policy == control.PolicyBalance {
		return "off (" + policy + ")"
	}
	return "on (" + policy + ")"
}

func (a *app) showAffinity(ctx context.Context, c *control.Client, args []string, asJSON bool) error {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	models := status.Models
	if len(args) == 1 {
		m, err := remote.FindModel(status, args[0])
		if err != nil {
			return err
		}
		models = []control.Model{m}
	}
	if asJSON {
		return a.printJSON(models)
	}
	for _, m := range models {
		fmt.Fprintf(a.out, "%s: affinity %s, spill limit %s, %s\n", m.Alias, onOff(m.Policy), spillText(m.SpillLimit, m.SpillAuto), words.Count(m.SessionsLive, "session", "sessions"))
	}
	return nil
}

func spillText(limit int, auto bool) string {
	if auto {
		return strconv.Itoa(limit) + " (auto)"
	}
	return strconv.Itoa(limit)
}

// theModel is the named model, or the only one.
func theModel(ctx context.Context, c *control.Client, args []string) (control.Model, error) {
	status, err := c.Status(ctx)
	if err != nil {
		return control.Model{}, err
	}
	return remote.FindModel(status, strings.Join(args, ""))
}

func (a *app) spillCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "spill {N|auto} [MODEL]",
		Short: "Set a model's spill limit, live",
		Long: `Sets from how many requests in flight on a session's home a turn is served
elsewhere. auto is a quarter of the engine's concurrent-sequence limit.`,
		Example: "  warden spill 8 qwen3-4b\n  warden spill auto",
		Args:    argCount(1, 2, "a limit"),
	}
	cmd.ValidArgsFunction = a.completeServed("auto")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		limit := 0
		if args[0] != "auto" {
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 1 {
				return usageError(cmd, fmt.Errorf("%q is neither auto nor a number of requests of at least 1", args[0]))
			}
			if err := configs.CheckSpill(n); err != nil {
				return usageError(cmd, err)
			}
			limit = n
		}
		return a.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
			before, err := theModel(ctx, c, args[1:])
			if err != nil {
				return err
			}
			change, err := c.SetSpillLimit(ctx, before.Alias, limit)
			if err != nil {
				return err
			}
			if *asJSON {
				return a.printJSON(change)
			}
			fmt.Fprintf(a.out, "spill limit %s: %s -> %s\n", change.Model, spillText(change.Old, before.SpillAuto), spillText(change.New, change.Auto))
			return nil
		})
	}
	return cmd
}

func (a *app) restartCommand() *cobra.Command {
	cmd := a.replicaCommand("restart [REPLICA...]", "Restart replicas, one at a time, after their held requests finished", control.Restart)
	cmd.Long = "Restarts the named replicas, or all, one at a time: held requests finish first,\nand the next begins when the last is ready again."
	return cmd
}

func (a *app) drainCommand() *cobra.Command {
	return a.replicaCommand("drain REPLICA...", "Let a replica finish its held requests and accept none", control.Drain)
}

func (a *app) undrainCommand() *cobra.Command {
	return a.replicaCommand("undrain REPLICA...", "Start a drained or stopped replica again", control.Undrain)
}

func (a *app) killCommand() *cobra.Command {
	return a.replicaCommand("kill REPLICA...", "End a replica's process tree now; it restarts", control.Kill)
}

func (a *app) retryCommand() *cobra.Command {
	return a.replicaCommand("retry REPLICA...", "Start a replica that is parked or in back-off now, also on a GPU that was set aside", control.Retry)
}

func (a *app) replicaCommand(use, short string, action control.ReplicaAction) *cobra.Command {
	minimum := 1
	if action == control.Restart {
		minimum = 0
	}
	cmd := &cobra.Command{
		Use: use, Short: short, Args: argCount(minimum, math.MaxInt, "REPLICA"),
		Example: "  warden " + string(action) + " r0",
	}
	cmd.ValidArgsFunction = a.completeReplicas
	wait := cmd.Flags().Bool("wait", action == control.Restart, "wait until it is done")
	timeout := cmd.Flags().Duration("timeout", 30*time.Minute, "longest `TIME` to wait for each replica")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		return a.ask(cmd.Context(), func(ctx context.Context, c *control.Client) error {
			status, err := c.Status(ctx)
			if err != nil {
				return err
			}
			all, err := remote.Replicas(status, ids) // before the first order: all or none
			if err != nil {
				return err
			}
			for _, id := range all {
				said, err := remote.Order(ctx, c, id, action, *wait, *timeout)
				if err != nil {
					return err
				}
				fmt.Fprintln(a.out, said)
			}
			return nil
		})
	}
	return cmd
}
