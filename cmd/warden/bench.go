package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/lm-warden/warden/cmd/internal/bench"
	"github.com/lm-warden/warden/supervisor/control"
)

func (a *app) benchCommand() *cobra.Command {
	o := bench.Options{Version: version, Out: a.out, Err: a.err, Live: isTerminal(a.err) && !envDumb()}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure agent sessions, affinity off against on", Args: noArgs,
		Long: `Plays synthetic agent sessions in a closed loop: a shared system prompt of
about 3.5k tokens, a first message of 7.3k, five more turns of 400, each
resending the conversation. Times are measured here, to the first byte and to
the first text. Without --url it measures the running warden; --compare
measures it with affinity off and on and leaves the setting as it was.

With --replay it sends what an access log recorded (warden up --access-log):
the same arrivals, conversations, APIs and numbers of tokens with words of its
own, and shows the figures of then beside those of now. --json then writes a
file of the kind "replay".`,
		Example: `  warden bench --compare --sessions 4,8,16 --rounds 2 --plot
  warden bench --replay 'access.log*' --speed 2 --compare
  warden bench --url http://127.0.0.1:8001 --model m --api messages`,
	}
	benchFlags(cmd.Flags(), &o)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("duration") {
			o.Limit = o.Duration
		}
		if len(o.Replay) > 0 && cmd.Flags().Changed("sessions") {
			return usageError(cmd, errors.New("--sessions does not go with --replay: the log says how many there are"))
		}
		if cmd.Flags().Changed("api-key") && o.KeyFile != "" {
			return usageError(cmd, errors.New("--api-key and --key-file both name a key"))
		}
		if err := o.Check(); err != nil {
			return usageError(cmd, err)
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		if o.URL != "" {
			return bench.Address(ctx, o)
		}
		return a.ask(ctx, func(ctx context.Context, c *control.Client) error { return bench.Running(ctx, c, o) })
	}
	return cmd
}

func benchFlags(fl *pflag.FlagSet, o *bench.Options) {
	fl.SortFlags = false
	fl.BoolVar(&o.Compare, "compare", false, "affinity off against on, one row for each number of sessions")
	fl.IntSliceVar(&o.Sessions, "sessions", []int{8}, "concurrent sessions, a `LIST` such as 4,8,16: one run each")
	fl.DurationVar(&o.Duration, "duration", 3*time.Minute, "length of each run, a `TIME` such as 3m; with --replay only so much of the log")
	fl.IntVar(&o.Rounds, "rounds", 1, "`N` how often each run is repeated, off and on in turn")
	fl.StringArrayVar(&o.Replay, "replay", nil, "send again what this access log `FILE` recorded; repeatable, or a pattern: 'access.log*'")
	fl.Float64Var(&o.Speed, "speed", 1, "with --replay: `N` times as fast as it came")
	fl.StringVar(&o.URL, "url", "", "measure this `ADDRESS` and not the running warden")
	fl.StringVar(&o.Model, "model", "", "served `NAME`, if there are several")
	fl.StringVar(&o.API, "api", "chat", "`API` spoken: chat, completions, responses (OpenAI) or messages (Anthropic)")
	fl.StringVar(&o.APIKey, "api-key", os.Getenv("WARDEN_BENCH_API_KEY"), "bearer `TOKEN` [WARDEN_BENCH_API_KEY]")
	fl.StringVar(&o.KeyFile, "key-file", "", "read the token from this `FILE`, as `warden keys add` printed it")
	fl.StringVar(&o.CA, "ca", "", "also trust the certificates in this PEM `FILE`")
	fl.DurationVar(&o.Gap, "gap", 0, "mean `TIME` between a session's turns")
	fl.IntVar(&o.Scale, "scale", 1, "divide all lengths by `N`, for slow engines")
	fl.Float64Var(&o.Chars, "chars-per-token", 0, "`N` characters of text for a token; 0: ask the model first")
	fl.Uint64Var(&o.Seed, "seed", 1, "`N` decides the texts")
	fl.BoolVar(&o.Plot, "plot", false, "also draw the time to first token over time")
	fl.BoolVar(&o.ASCII, "ascii", false, "ASCII only")
	fl.StringVar(&o.JSONFile, "json", "", "also write all figures to this `FILE`; - prints them instead of the table")
	fl.Lookup("api-key").DefValue = "" // the help must not print the user's
}
