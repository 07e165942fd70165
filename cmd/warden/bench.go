package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/supervisor/control"
)

// `warden bench`: bench.go runs the loads, benchout.go shows and writes what
// they measured.

type benchFlags struct {
	url, model, api, apiKey string
	sessions                []int
	rounds                  int
	duration, gap           time.Duration
	scale                   int
	chars                   float64
	compare, plot, ascii    bool
	jsonFile                string
	seed                    uint64
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure agent sessions, affinity off against on", Args: noArgs,
		Long: `Plays synthetic agent sessions in a closed loop: a shared system prompt of
about 3.5k tokens, a first message of 7.3k, five more turns of 400, each
resending the conversation. Times are measured here, to the first byte and to
the first text. Without --url it measures the running warden; --compare
measures it with affinity off and on and leaves the setting as it was.`,
		Example: `  warden bench --compare --sessions 4,8,16 --rounds 2
  warden bench --compare --duration 1m --plot --json figures.json
  warden bench --url http://127.0.0.1:8001 --model m --api messages`,
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.BoolVar(&f.compare, "compare", false, "affinity off against on, one row for each number of sessions")
	fl.IntSliceVar(&f.sessions, "sessions", []int{8}, "concurrent sessions, a `LIST` such as 4,8,16: one run each")
	fl.DurationVar(&f.duration, "duration", 3*time.Minute, "length of each run, a `TIME` such as 3m")
	fl.IntVar(&f.rounds, "rounds", 1, "`N` how often each run is repeated, off and on in turn")
	fl.StringVar(&f.url, "url", "", "measure this `ADDRESS` and not the running warden")
	fl.StringVar(&f.model, "model", "", "served `NAME`, if there are several")
	fl.StringVar(&f.api, "api", "chat", "`API` spoken: chat (OpenAI) or messages (Anthropic)")
	fl.StringVar(&f.apiKey, "api-key", os.Getenv("WARDEN_BENCH_API_KEY"), "bearer `TOKEN` [WARDEN_BENCH_API_KEY]")
	fl.DurationVar(&f.gap, "gap", 0, "mean `TIME` between a session's turns")
	fl.IntVar(&f.scale, "scale", 1, "divide all lengths by `N`, for slow engines")
	fl.Float64Var(&f.chars, "chars-per-token", 0, "`N` characters of text for a token; 0: ask the model first")
	fl.Uint64Var(&f.seed, "seed", 1, "`N` decides the texts")
	fl.BoolVar(&f.plot, "plot", false, "also draw the time to first token over time")
	fl.BoolVar(&f.ascii, "ascii", false, "ASCII only")
	fl.StringVar(&f.jsonFile, "json", "", "also write all figures to this `FILE`; - prints them instead of the table")
	fl.Lookup("api-key").DefValue = "" // the help must not print the user's
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return usageError(cmd, err)
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		if f.url != "" {
			return a.runBench(ctx, &bench{app: a, f: f, settings: []string{"as is"}})
		}
		return a.ask(ctx, func(ctx context.Context, c *control.Client) error { return a.benchDaemon(ctx, c, f) })
	}
	return cmd
}

func (f *benchFlags) check() error {
	switch {
	case f.compare && f.url != "":
		return errors.New("--compare switches the running warden; --url is another address")
	case f.url != "" && f.model == "":
		return errors.New("--url needs --model, the name it serves")
	case f.api != "chat" && f.api != "messages":
		return fmt.Errorf("--api %q is not one of chat, messages", f.api)
	case f.rounds < 1, f.scale < 1, f.duration <= 0, f.gap < 0, f.chars < 0, len(f.sessions) == 0:
		return errors.New("--rounds, --scale and --sessions must be at least 1, times positive")
	}
	for _, n := range f.sessions {
		if n < 1 {
			return fmt.Errorf("--sessions %d: must be at least 1", n)
		}
	}
	return nil
}

// bench is one invocation.
type bench struct {
	*app
	f        benchFlags
	settings []string
	client   *control.Client // nil with --url
	// What the daemon says of what is measured; zero with --url.
	simulated bool
	capacity  int // tokens that the KV caches of all replicas hold; 0 unknown

	part    uint64 // of the next run: none sees another's prompts
	started time.Time
	results []benchResult
}

// benchResult is what one setting measured at one number of sessions.
type benchResult struct {
	load.Named
	curve load.Curve
}

// benchDaemon measures the running warden.
func (a *app) benchDaemon(ctx context.Context, c *control.Client, f benchFlags) (err error) {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	m, err := findModel(status, f.model)
	if err != nil {
		return err
	}
	b := &bench{app: a, f: f, client: c, settings: []string{"as is"}, simulated: status.Simulated}
	b.f.url, b.f.model = status.Listen, m.Alias
	for _, r := range status.Replicas {
		if r.Model == m.Alias && r.Engine != nil {
			b.capacity += r.Engine.KVCapacityTokens
		}
	}
	if f.compare {
		b.settings = []string{settingOff, settingOn}
		defer func() { err = errors.Join(err, b.restore(ctx, m)) }()
	}
	return a.runBench(ctx, b)
}

// Settings of --compare.
const (
	settingOff = "affinity off"
	settingOn  = "affinity on"
)

// restoreLimit bounds how long giving it back may take.
const restoreLimit = 5 * time.Second

// restore gives the model the affinity it had, also after Ctrl-C.
func (b *bench) restore(ctx context.Context, m control.Model) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()
	_, err := b.client.SetAffinity(ctx, m.Alias, m.Affinity)
	word := map[bool]string{true: "on", false: "off"}[m.Affinity]
	return exit.Fail(exit.Failed, err, fmt.Sprintf("affinity was %s before: `warden affinity %s %s`", word, word, m.Alias))
}

// runBench measures everything, then shows it; what was measured before an
// interruption is shown, too.
func (a *app) runBench(ctx context.Context, b *bench) error {
	b.started = time.Now()
	err := b.calibrate(ctx)
	if err == nil {
		err = b.all(ctx)
	}
	if len(b.results) > 0 {
		err = errors.Join(err, b.show())
	}
	return err
}

// calibrate asks how long a token is, unless the user said so.
func (b *bench) calibrate(ctx context.Context) error {
	if b.f.chars > 0 {
		return nil
	}
	chars, err := load.Calibrate(ctx, b.options(1))
	if err != nil {
		return exit.Fail(exit.Failed, fmt.Errorf("cannot measure %s: %w", b.f.url, err), "check the address, --model, --api and --api-key; `--chars-per-token 4` asks nothing first")
	}
	b.f.chars = chars
	return nil
}

// all runs every number of sessions under every setting.
func (b *bench) all(ctx context.Context) error {
	runs := len(b.f.sessions) * len(b.settings) * b.f.rounds
	done := 0
	for _, n := range b.f.sessions {
		sums := make([]load.Measurement, len(b.settings))
		rounds := make([][]load.Report, len(b.settings))
		for round := range b.f.rounds {
			for k := range b.settings {
				i := k
				if round%2 == 1 { // the other way round: whatever changes with time hits both alike
					i = len(b.settings) - 1 - k
				}
				done++
				name := fmt.Sprintf("run %d of %d: %s, %s", done, runs, b.settings[i], words.Count(n, "session", "sessions"))
				measured, err := b.one(ctx, n, b.settings[i], name)
				if err != nil {
					return err
				}
				report, err := measured.Report()
				if err != nil {
					return exit.Fail(exit.Failed, err, "check --model, --api and --api-key")
				}
				report.Simulated = b.simulated
				rounds[i] = append(rounds[i], report)
				sums[i] = sums[i].With(measured)
			}
		}
		for i, setting := range b.settings {
			b.add(setting, sums[i], rounds[i])
		}
	}
	return nil
}

// one is a single run.
func (b *bench) one(ctx context.Context, sessions int, setting, name string) (load.Measurement, error) {
	if b.f.compare {
		if _, err := b.client.SetAffinity(ctx, b.f.model, setting == settingOn); err != nil {
			return load.Measurement{}, err
		}
	}
	b.settle(ctx)
	o := b.options(sessions)
	o.Part = b.part
	b.part++
	p := b.follow(name, b.f.duration)
	o.OnTurn = p.turn
	measured, err := load.Measure(ctx, o)
	p.close()
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return measured, err
}

// settle waits until the daemon holds nothing of the run before.
func (b *bench) settle(ctx context.Context) {
	if b.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for msg, err := range b.client.Watch(ctx) {
		if err != nil || msg.Status != nil && msg.Status.Totals.Held == 0 {
			return // what is still held after that time belongs to somebody else
		}
	}
}

// settleTime bounds the wait between two runs.
const settleTime = 10 * time.Second

func (b *bench) options(sessions int) load.Options {
	return load.Options{
		URL: b.f.url, Model: b.f.model, API: b.f.api, APIKey: b.f.apiKey, Sessions: sessions, Duration: b.f.duration,
		Shape: b.shape(), CharsPerToken: b.f.chars, Seed: b.f.seed,
	}
}

func (b *bench) shape() load.Shape {
	shape := load.Reference().Scaled(b.f.scale)
	shape.Gap = b.f.gap
	return shape
}
