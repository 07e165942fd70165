// Command ladder plays all placement policies against each other in virtual
// time and writes what it finds as Markdown and JSON. Everything is SIMULATED.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/lm-warden/warden/cmd/internal/ladder"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ladder:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("ladder", flag.ContinueOnError)
	short := flags.Bool("short", false, "6 minutes a cell instead of 20")
	seed := flags.Uint64("seed", 1, "seed of the conversations")
	only := flags.String("only", "", "play rungs whose group or name contains this")
	settings := flags.Bool("settings", false, "vary the engines' settings instead of the load")
	routed := flags.String("router", "", "cells that the router's test has written (make ladder), to stand beside the others")
	dir := flags.String("out", ".", "folder for ladder.md and ladder.json")
	if err := flags.Parse(args); err != nil {
		return err
	}
	times := ladder.Full()
	if *short {
		times = ladder.Short()
	}
	play := ladder.Rungs
	if *settings {
		play = ladder.SettingRungs
	}
	rungs, err := play(times, *seed)
	if err != nil {
		return err
	}
	var chosen []ladder.Rung
	for _, r := range rungs {
		if strings.Contains(r.Group+", "+r.Name, *only) {
			chosen = append(chosen, r)
		}
	}
	fmt.Fprintln(out, "SIMULATED: p50, p95, turns/min, hits")
	report, err := ladder.Climb(chosen, func(c ladder.Cell) {
		fmt.Fprintf(out, "%-34s %-20s %6.2f %7.2f %6.1f %4.0f %%\n", c.Rung, c.Policy, c.TTFB.P50, c.TTFB.P95, c.TurnsPerMinute, 100*c.HitRate)
	})
	if err != nil {
		return err
	}
	if *routed != "" {
		if err := join(&report, *routed); err != nil {
			return err
		}
	}
	report.ByGroup()
	if err := write(filepath.Join(*dir, "ladder.md"), report.WriteMarkdown); err != nil {
		return err
	}
	return write(filepath.Join(*dir, "ladder.json"), report.WriteJSON)
}

// join adds the cells of another report.
func join(report *ladder.Report, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	other, err := ladder.ReadJSON(f)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return report.Join(other)
}

func write(path string, content func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := content(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
