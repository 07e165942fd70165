package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/supervisor/vllm/setup"
)

func (a *app) setupCommand() *cobra.Command {
	var o setup.Options
	cmd := &cobra.Command{
		Use: "setup", Short: "Install vLLM for warden, in an environment of its own", Args: noArgs,
		Long: `Makes a Python environment that holds vLLM and that only warden uses. It may be
interrupted and repeated; it goes on where it stopped. With --device cpu it
installs vLLM's CPU build, to try real engines without a GPU.`,
		Example: "  warden setup\n  warden setup --device cpu && warden up --device cpu --model tiny --dp 2",
	}
	fl := cmd.Flags()
	fl.StringVar(&o.Device, "device", setup.CUDA, "`DEVICE` engines run on: cuda or cpu")
	fl.StringVar(&o.Version, "version", setup.DefaultVersion, "vLLM `VERSION`")
	fl.StringVar(&o.Python, "python", "", "Python interpreter `PATH`, default the best on PATH")
	fl.StringVar(&o.Dir, "dir", paths.ManagedDir(), "`DIR` where environments are kept, default ~/.cache/warden")
	fl.Lookup("dir").DefValue = "" // the manual must not name the machine it was written on
	fl.BoolVar(&o.Fresh, "fresh", false, "throw an existing environment away first")
	verbose := fl.BoolP("verbose", "v", false, "print what the installer prints")
	asJSON := fl.Bool("json", false, "print the result as JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		if o.Device == setup.CUDA {
			o.Driver = a.driver(ctx)
		}
		o.Progress = a.setupProgress(*verbose)
		env, err := setup.Setup(ctx, o)
		if err != nil {
			return exit.Fail(exit.Failed, err, exit.HintOf(err))
		}
		if *asJSON {
			return a.printJSON(env)
		}
		fmt.Fprintf(a.out, "vLLM %s for %s in %s\n", env.Version, env.Device, env.Dir)
		return nil
	}
	return cmd
}

// driver is the installed NVIDIA driver, "" when none answers.
func (a *app) driver(ctx context.Context) string {
	inv, err := plan.Detect(ctx)
	if err != nil {
		return ""
	}
	return inv.Driver
}

// setupProgress prints one line a step; on a terminal the installer's last line
// shows behind the running step.
func (a *app) setupProgress(verbose bool) func(setup.Step) {
	live := isTerminal(a.err) && !verbose
	return func(s setup.Step) {
		head := fmt.Sprintf("[%d/%d] %s", s.Number, s.Total, s.Title)
		switch s.Status {
		case setup.Started:
			fmt.Fprint(a.err, head)
			if !live {
				fmt.Fprintln(a.err)
			}
		case setup.Output:
			if verbose {
				fmt.Fprintln(a.err, "      "+s.Detail)
			} else if live {
				fmt.Fprintf(a.err, "\r\x1b[K%s: %.60s", head, s.Detail)
			}
		default:
			if live {
				fmt.Fprint(a.err, "\r\x1b[K")
			}
			line := fmt.Sprintf("%s: %s", head, s.Status)
			if s.Detail != "" {
				line += ", " + s.Detail
			}
			if s.Elapsed >= time.Second {
				line += ", " + words.Short(s.Elapsed)
			}
			fmt.Fprintln(a.err, line)
		}
	}
}
