package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/configs"
	"github.com/lm-warden/warden/gpu"
)

func (a *app) modelsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "models", Short: "List the short names of models", Args: noArgs,
		Long: `Lists the short names that --model takes. Your own go under "catalogue" in a
configuration file; any other name with "/" is taken as a repository.`,
		Example: "  warden models\n  warden models --json",
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	fit := cmd.Flags().Bool("fit", false, "only those that fit this machine's GPUs")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		loaded, err := a.loadConfig(nil)
		if err != nil {
			return err
		}
		entries := configs.Merge(configs.Builtin(), loaded.Config.Catalogue)
		inv, _ := plan.Detect(cmd.Context()) // without GPUs none fits
		rows := plan.Catalogue(entries, inv)
		if *fit {
			rows = slices.DeleteFunc(rows, func(r plan.Row) bool { return !strings.HasPrefix(r.Fits, "--") })
		}
		if *asJSON {
			return a.printJSON(rows)
		}
		tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "ALIAS\tREPOSITORY\tWEIGHTS\tFITS HERE\tNOTE")
		for _, row := range rows {
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", row.Alias, row.Repo, words.Gigabytes(row.WeightsGB), row.Fits, row.Note)
		}
		return tw.Flush()
	}
	return cmd
}

func (a *app) gpusCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "gpus", Short: "List the GPUs and who uses them", Args: noArgs,
		Example: "  warden gpus\n  warden gpus --json",
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		inv, err := plan.Detect(cmd.Context())
		if err != nil {
			what, fix := gpu.Describe(err)
			return exit.Fail(exit.Preflight, errors.New(what), fix)
		}
		if *asJSON {
			return a.printJSON(inv)
		}
		fmt.Fprintf(a.out, "driver %s, CUDA %s\n", inv.Driver, inv.CUDA)
		tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "GPU\tNAME\tBUS\tMEMORY\tFREE\tCC\tNUMA\tUSED BY")
		for _, d := range inv.Devices {
			fmt.Fprintf(tw, "%d\t%s\t%s\t%s\t%s\t%d.%d\t%s\t%s\n", d.Index, d.Name, d.PCIBusID, humanize.IBytes(d.Memory),
				humanize.IBytes(d.MemoryFree), d.ComputeCap[0], d.ComputeCap[1], numa(d.NUMANode), users(d))
		}
		err = tw.Flush()
		for _, d := range inv.Devices {
			if f, faulty := d.Fault(); faulty {
				fmt.Fprintf(a.out, "GPU %d: %s\n  fix: %s\n", d.Index, f.What, f.Fix)
			}
		}
		for _, l := range inv.Lost {
			fmt.Fprintf(a.out, "the GPU with NVML index %d does not answer: %s\n  fix: %s\n", l.NVMLIndex, l.Err, l.Fix)
		}
		return err
	}
	return cmd
}

func numa(node int) string {
	if node < 0 {
		return "-"
	}
	return fmt.Sprint(node)
}

func users(d gpu.Device) string {
	if d.MIG {
		return "MIG: not supported"
	}
	var list []string
	for _, p := range d.Processes {
		text := fmt.Sprintf("pid %d (%s", p.PID, p.Name)
		if p.User != "" {
			text += ", user " + p.User
		}
		list = append(list, text+")")
	}
	return strings.Join(list, ", ")
}
