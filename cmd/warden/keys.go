package main

import (
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/front"
	"github.com/lm-warden/warden/router/keys"
)

func (a *app) keysCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and remove API keys",
		Long: `Edits the file of API keys that api_keys_file names. It holds hashes only; a
running warden reads it again within seconds.
Scopes: infer lets a client ask an engine, read lets it look at /metrics, admin
is both. Steering warden needs no key: it goes over a socket of its user.`,
		Example: "  warden keys add ann --file keys\n  warden keys add prometheus --scope read\n  warden keys list",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	file := cmd.PersistentFlags().String("file", "", "key `FILE`, over api_keys_file of the configuration [WARDEN_API_KEYS_FILE]")
	with := func(run func(file string, args []string) error) func(*cobra.Command, []string) error {
		return func(_ *cobra.Command, args []string) error {
			name, err := a.keysFile(*file)
			if err != nil {
				return err
			}
			err, fix := run(name, args), ""
			if errors.Is(err, fs.ErrNotExist) {
				fix = "`warden keys add NAME` makes it"
			}
			return exit.Fail(exit.Config, err, fix)
		}
	}
	cmd.AddCommand(a.keysAdd(with), a.keysList(with),
		&cobra.Command{
			Use: "remove NAME", Short: "Take a key out, by its name or the digits that `warden keys list` shows",
			Example: "  warden keys remove ann", Args: cobra.ExactArgs(1),
			RunE: with(func(file string, args []string) error { return front.RemoveKey(file, args[0]) }),
		},
		&cobra.Command{
			Use: "hash", Short: "Replace keys written in plain text by their hashes",
			Example: "  warden keys hash --file keys", Args: noArgs,
			RunE: with(func(file string, _ []string) error {
				n, err := front.HashKeys(file)
				if err == nil {
					fmt.Fprintf(a.out, "keys in plain text: %d replaced by their hashes in %s\n", n, file)
				}
				return err
			}),
		})
	return cmd
}

type withFile = func(run func(file string, args []string) error) func(*cobra.Command, []string) error

func (a *app) keysAdd(with withFile) *cobra.Command {
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Make a key and print it, once: only its hash is kept", Args: cobra.ExactArgs(1),
		Example: "  warden keys add ann --max-in-flight 8",
	}
	scope := cmd.Flags().String("scope", "infer,read", "`LIST` what it may do: infer, read, admin")
	limit := cmd.Flags().Int("max-in-flight", 0, "`N` requests at one time, waiting ones included; 0: no limit")
	cmd.RunE = with(func(file string, args []string) error {
		k := keys.Key{Name: args[0], MaxInFlight: *limit}
		var err error
		if k.Scope, err = keys.ParseScope(*scope); err != nil {
			return err
		}
		if err := keys.CheckName(k.Name); err != nil {
			return err
		}
		if k.MaxInFlight < 0 {
			return errors.New("--max-in-flight must not be negative")
		}
		key := keys.New()
		k.Hash = keys.HashOf(key)
		if err := front.AddKey(file, k); err != nil {
			return err
		}
		fmt.Fprintln(a.out, key)
		fmt.Fprintf(a.err, "This is the only time it is shown. %s holds its hash; a warden that uses the file accepts it within seconds.\n", file)
		return nil
	})
	return cmd
}

func (a *app) keysList(with withFile) *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "List the keys of the file, without the keys themselves", Args: noArgs,
		Example: "  warden keys list --json",
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	type row struct {
		Name        string `json:"name"`
		ID          string `json:"id"`
		Scope       string `json:"scope"`
		MaxInFlight int    `json:"max_in_flight,omitempty"`
		Plain       bool   `json:"plain,omitempty"` // written in plain text
	}
	cmd.RunE = with(func(file string, _ []string) error {
		all, err := front.ListKeys(file)
		if err != nil {
			return err
		}
		rows := []row{}
		for _, k := range all {
			rows = append(rows, row{k.Name, k.Hash.ID(), k.Scope.String(), k.MaxInFlight, k.Plain})
		}
		if *asJSON {
			return a.printJSON(rows)
		}
		tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "NAME\tID\tSCOPE\tMAX IN FLIGHT")
		for _, r := range rows {
			limit := "-"
			if r.MaxInFlight > 0 {
				limit = fmt.Sprint(r.MaxInFlight)
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", orNone(r.Name), r.ID, r.Scope, limit)
		}
		return tw.Flush()
	})
	return cmd
}

// keysFile is the file to edit.
func (a *app) keysFile(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	loaded, err := a.loadConfig(nil)
	if err != nil {
		return "", err
	}
	if loaded.Config.APIKeysFile == "" {
		return "", exit.Fail(exit.Config, errors.New("no key file is named"), "`--file FILE`, or api_keys_file in the configuration")
	}
	return loaded.Config.APIKeysFile, nil
}
