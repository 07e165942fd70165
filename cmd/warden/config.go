package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/configs"
)

// loadConfig reads files, environment and flags; flags are by key.
func (a *app) loadConfig(flags map[string]any) (configs.Loaded, error) {
	if a.flags.name != "" {
		if flags == nil {
			flags = map[string]any{}
		}
		flags["name"] = a.flags.name
	}
	loaded, err := configs.Load(configs.Source{
		Files: configFiles(), Required: a.flags.config, LookupEnv: os.LookupEnv, Flags: flags,
	})
	if err != nil {
		return loaded, fail(exitConfig, err, "`warden config validate` checks a file; configs/warden.example.yaml shows every key")
	}
	return loaded, nil
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show or check the configuration", Args: cobra.NoArgs}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(a.configShow(), a.configValidate())
	return cmd
}

func (a *app) configShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Print every key, its value and where that came from", Args: cobra.NoArgs,
		Example: "  warden config show --origin",
	}
	origin := cmd.Flags().Bool("origin", false, "also print where each value came from")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		loaded, err := a.loadConfig(nil)
		if err != nil {
			return err
		}
		if *asJSON {
			rows := map[string]any{}
			for _, v := range loaded.Config.Values() {
				rows[v.Key] = map[string]any{"value": v.Value, "origin": loaded.Origin[v.Key]}
			}
			return a.printJSON(rows)
		}
		tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		for _, v := range loaded.Config.Values() {
			fmt.Fprintf(tw, "%s\t%v", v.Key, v.Value)
			if *origin {
				fmt.Fprintf(tw, "\t%s", loaded.Origin[v.Key])
			}
			fmt.Fprintln(tw)
		}
		return tw.Flush()
	}
	return cmd
}

func (a *app) configValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate [FILE]", Short: "Check a configuration file", Args: cobra.MaximumNArgs(1),
		Example: "  warden config validate warden.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				a.flags.config = args[0]
			}
			loaded, err := a.loadConfig(nil)
			if err != nil {
				return err
			}
			if err := loaded.Config.Validate(); err != nil {
				return fail(exitConfig, err, "")
			}
			if len(loaded.Files) == 0 {
				return fail(exitConfig, errors.New("no configuration file was found"), "name one: `warden config validate FILE`")
			}
			for _, f := range loaded.Files {
				fmt.Fprintf(a.out, "%s: ok\n", f)
			}
			return nil
		},
	}
}
