package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) logsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "logs [REPLICA...]", Short: "Print the engines' logs",
		Example: "  warden logs r0 -n 50\n  warden logs -f\n  warden logs r1 --previous",
	}
	cmd.ValidArgsFunction = a.completeReplicas
	follow := cmd.Flags().BoolP("follow", "f", false, "go on as lines come")
	tail := cmd.Flags().IntP("lines", "n", 100, "at most `N` lines of each replica; 0 for all")
	since := cmd.Flags().Duration("since", 0, "only lines of the last `TIME`, such as 10m")
	previous := cmd.Flags().Bool("previous", false, "the run before the last restart")
	asJSON := cmd.Flags().Bool("json", false, "one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		q := control.LogQuery{Replicas: ids, Tail: *tail, Follow: *follow, Previous: *previous}
		if *since > 0 {
			q.Since = time.Now().Add(-*since)
		}
		return a.ask(ctx, func(ctx context.Context, c *control.Client) error { return a.printLogs(ctx, c, q, *asJSON) })
	}
	return cmd
}

// prefixColours tell replicas apart; the name stands in front all the same.
var prefixColours = []string{"36", "33", "32", "35", "34", "31"} // SGR codes of 16-colour terminals

func (a *app) printLogs(ctx context.Context, c *control.Client, q control.LogQuery, asJSON bool) error {
	prefix := a.logPrefixes(len(q.Replicas) == 1)
	printed := 0
	for line, err := range c.Logs(ctx, q) {
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if line.Dropped > 0 {
			fmt.Fprintf(a.err, "%s: %d lines lost, the reader was too slow\n", line.Replica, line.Dropped)
		}
		printed++
		if asJSON {
			err = json.NewEncoder(a.out).Encode(line)
		} else {
			_, err = fmt.Fprintln(a.out, prefix(line.Replica)+line.Text)
		}
		if err != nil {
			return err
		}
	}
	if printed == 0 && q.Previous {
		fmt.Fprintln(a.err, "no earlier run: nothing was restarted")
	}
	return nil
}

// logPrefixes returns what stands in front of a replica's lines; with one
// replica they are printed as they are.
func (a *app) logPrefixes(raw bool) func(replica string) string {
	colours := map[string]string{}
	colored := a.colored(a.out)
	return func(replica string) string {
		switch {
		case raw:
			return ""
		case !colored:
			return replica + " | "
		case colours[replica] == "":
			colours[replica] = prefixColours[len(colours)%len(prefixColours)]
		}
		return fmt.Sprintf("\x1b[%sm%s |\x1b[0m ", colours[replica], replica)
	}
}

func (a *app) eventsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "events", Short: "Print what happens, as it happens",
		Example: "  warden events\n  warden events --json | jq .kind",
		Args:    noArgs,
	}
	asJSON := cmd.Flags().Bool("json", false, "one JSON object a line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		return a.ask(ctx, func(ctx context.Context, c *control.Client) error {
			for msg, err := range c.Watch(ctx) {
				if errors.Is(err, context.Canceled) {
					return nil
				}
				if err != nil {
					return err
				}
				all := msg.Recent
				if msg.Event != nil {
					all = append(all, *msg.Event)
				}
				for _, e := range all {
					if *asJSON {
						if err := json.NewEncoder(a.out).Encode(e); err != nil {
							return err
						}
						continue
					}
					fmt.Fprintf(a.out, "%s %-3s %-9s %s\n", e.At.Format(time.TimeOnly), dash(e.Replica), e.Kind, e.Text)
				}
			}
			return nil
		})
	}
	return cmd
}

func dash(s string) string {
	if s == "" {
		return "--"
	}
	return s
}

// interruptible is a context that Ctrl-C and SIGTERM end.
func interruptible(ctx context.Context) (context.Context, context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
}
