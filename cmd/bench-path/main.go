// Command bench-path measures what warden costs in the path of requests, beside
// no proxy, HAProxy, nginx and other routers of engines, and writes what it
// finds as Markdown and JSON. As `bench-path serve ...` it is the engine behind
// them all, as `bench-path copy ...` the floor below which no proxy can go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/lm-warden/warden/cmd/internal/benchpath"
)

func main() {
	if err := run(os.Args[1:], os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "bench-path:", err)
		os.Exit(1)
	}
}

func run(args []string, log io.Writer) error {
	if len(args) > 0 && args[0] == "serve" {
		engine, err := benchpath.ParseEngine(args[1:])
		if err != nil {
			return err
		}
		return engine.Serve()
	}
	if len(args) > 0 && args[0] == "copy" {
		return benchpath.Copy(args[1:])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, out, err := parse(args, log)
	if err != nil {
		return err
	}
	report, err := benchpath.Run(ctx, o)
	if len(report.Cells) > 0 { // also what was measured before an interruption
		err = errors.Join(err, write(out, "bench-path.md", report.WriteMarkdown), write(out, "bench-path.json", report.WriteJSON))
	}
	return err
}

func parse(args []string, log io.Writer) (o benchpath.Options, out string, err error) {
	o = benchpath.Defaults()
	o.Log = log
	flags := flag.NewFlagSet("bench-path", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.StringVar(&o.Warden, "warden", "bin/warden", "the built `program`")
	flags.StringVar(&o.Peers, "peers", "", "`folder` of installed routers")
	flags.IntVar(&o.Rounds, "rounds", o.Rounds, "`times` each cell is repeated")
	flags.DurationVar(&o.Length, "length", o.Length, "`time` of a cell's window")
	flags.IntVar(&o.Loop, "loop", o.Loop, "streams one after another with bodies of 60 kB, a `number`; 0: none")
	flags.IntVar(&o.Fast, "fast", o.Fast, "streams as fast as they go, a `number`; 0: none")
	numbers(flags, &o.Streams, "streams", "concurrent streams of 200 events at 20 ms, a `list`; 0: none")
	numbers(flags, &o.Quiet, "quiet", "concurrent streams of 4 events a second, a `list`; 0: none")
	numbers(flags, &o.Bodies, "bodies", "bytes of request bodies, a `list`; 0: none")
	flags.Func("arms", "only these, a `list`: none, warden, bare copy, HAProxy, nginx, vllm-router, smg", func(text string) error {
		o.Arms = strings.Split(text, ",")
		return nil
	})
	flags.StringVar(&out, "out", ".", "`folder` for bench-path.md and bench-path.json")
	if err := flags.Parse(args); err != nil {
		return o, "", err
	}
	if o.Engine, err = os.Executable(); err != nil {
		return o, "", err
	}
	if o.Warden, err = filepath.Abs(o.Warden); err != nil {
		return o, "", err
	}
	return o, out, nil
}

// numbers defines a flag that holds a list of positive numbers; 0 empties it.
func numbers(flags *flag.FlagSet, to *[]int, name, usage string) {
	flags.Func(name, usage+fmt.Sprintf(" (default %s)", strings.Trim(strings.ReplaceAll(fmt.Sprint(*to), " ", ","), "[]")), func(text string) error {
		*to = nil
		for field := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 0 {
				return errors.New("must be numbers")
			}
			if n > 0 {
				*to = append(*to, n)
			}
		}
		return nil
	})
}

func write(dir, name string, content func(io.Writer) error) error {
	f, err := os.Create(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}
