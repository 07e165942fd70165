package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/daemon"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
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
		Files: paths.ConfigFiles(), Required: a.flags.config, LookupEnv: os.LookupEnv, Flags: flags,
	})
	if err != nil {
		return loaded, exit.Fail(exit.Config, err, "`warden config example` prints every key with its default")
	}
	return loaded, nil
}

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "config", Short: "Show or check the configuration", Args: onlyCommands,
		Example: "  warden config show --origin\n  warden config validate warden.yaml\n  warden config example > warden.yaml",
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(a.configShow(), a.configValidate(),
		a.configFile("example", "warden.yaml", "Print a file with every key, its default and what it does", configs.Example()),
		a.configFile("schema", "warden.schema.json", "Print the JSON schema of the file, for editors", configs.Schema()))
	return cmd
}

// valueText is one value on one line: "-" when empty, lists as they may stand
// in the file.
func valueText(v any) (string, error) {
	switch v := configs.Plain(v).(type) {
	case string:
		if v == "" {
			return "-", nil
		}
		return v, nil
	default:
		raw, err := json.Marshal(v)
		return string(raw), err
	}
}

func (a *app) configShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show", Short: "Print every key, its value and where that came from", Args: noArgs,
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
			for _, v := range daemon.WithoutSecrets(loaded.Config).Values() {
				rows[configs.Dotted(v.Key)] = map[string]any{"value": configs.Plain(v.Value), "origin": loaded.Origin[v.Key]}
			}
			return a.printJSON(rows)
		}
		tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		for _, v := range daemon.WithoutSecrets(loaded.Config).Values() {
			text, err := valueText(v.Value)
			if err != nil {
				return err
			}
			if *origin {
				text = loaded.Origin[v.Key] + "\t" + text
			}
			fmt.Fprintf(tw, "%s\t%s\n", configs.Dotted(v.Key), text)
		}
		return tw.Flush()
	}
	return cmd
}

func (a *app) configValidate() *cobra.Command {
	return &cobra.Command{
		Use: "validate [FILE]", Short: "Check a configuration file", Args: argCount(0, 1),
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
				return exit.Fail(exit.Config, err, "")
			}
			if len(loaded.Files) == 0 {
				return exit.Fail(exit.Config, errors.New("no configuration file was found"), "name one: `warden config validate FILE`")
			}
			for _, f := range loaded.Files {
				fmt.Fprintf(a.out, "%s: ok\n", f)
			}
			return nil
		},
	}
}

// configFile prints one of the files that come with warden.
func (a *app) configFile(name, file, short string, content []byte) *cobra.Command {
	return &cobra.Command{
		Use: name, Short: short, Args: noArgs, Example: "  warden config " + name + " > " + file,
		RunE: func(*cobra.Command, []string) error {
			_, err := a.out.Write(content)
			return err
		},
	}
}
