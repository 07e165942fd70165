// Command ladder-vllm measures warden's policies and other routers on two real
// vLLM replicas on the CPU, and writes what it finds as Markdown and JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lm-warden/warden/cmd/internal/realladder"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "ladder-vllm:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log io.Writer) error {
	o := realladder.Options{Log: log}
	flags := flag.NewFlagSet("ladder-vllm", flag.ContinueOnError)
	flags.StringVar(&o.Warden, "warden", "bin/warden", "the built `program`")
	flags.StringVar(&o.VLLM, "vllm", "", "the vllm `program` of a CPU build, else the one that `warden setup --device cpu` made")
	flags.StringVar(&o.Peers, "peers", "", "`folder` of virtual environments with vllm-router and smg")
	sessions := flags.String("sessions", "2,4,8,12,16", "concurrent sessions, a `list`")
	flags.IntVar(&o.Rounds, "rounds", 3, "`times` each cell is repeated; 0: measure only what the engines cost")
	flags.DurationVar(&o.Length, "length", 50*time.Second, "`time` each cell takes")
	arms := flags.String("arms", "", "only these, a `list` of parts of names")
	flags.Uint64Var(&o.Seed, "seed", 1, "`number` that decides the texts")
	out := flags.String("out", ".", "`folder` for ladder-vllm.md and ladder-vllm.json")
	from := flags.String("from", "", "measure nothing: put these ladder-vllm.json together and simulate anew, a `list`; those of -rounds 0 add what the others did not measure")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *from != "" {
		return again(strings.Split(*from, ","), *out, o.Seed)
	}
	for _, text := range strings.Split(*sessions, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-sessions %q: must be numbers of at least 1", *sessions)
		}
		o.Sessions = append(o.Sessions, n)
	}
	if *arms != "" {
		o.Arms = strings.Split(*arms, ",")
	}
	if o.Rounds < 0 || o.Length < time.Second {
		return fmt.Errorf("-rounds %d and -length %v: no rounds below 0, at least one second", o.Rounds, o.Length)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	o.Managed = filepath.Join(cache, "warden")
	if o.Warden, err = filepath.Abs(o.Warden); err != nil {
		return err
	}
	o.Done = func(r realladder.Report) error { return write(*out, r) }
	report, err := realladder.Run(ctx, o)
	if len(report.Rates) > 0 { // also what was measured before an interruption
		if writeErr := write(*out, report); err == nil {
			err = writeErr
		}
	}
	return err
}

// again puts together what earlier runs have measured.
func again(files []string, dir string, seed uint64) error {
	var reports []realladder.Report
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var r realladder.Report
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("%s is no report of a ladder on real vLLM: %w", name, err)
		}
		reports = append(reports, r)
	}
	whole, err := realladder.Again(reports, seed)
	if err != nil {
		return err
	}
	return write(dir, whole)
}

func write(dir string, r realladder.Report) error {
	for name, content := range map[string]func(io.Writer) error{"ladder-vllm.md": r.WriteMarkdown, "ladder-vllm.json": r.WriteJSON} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		err = content(f)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return err
		}
	}
	return nil
}
