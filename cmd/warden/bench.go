package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/supervisor/control"
)

type benchFlags struct {
	url, model, api, apiKey string
	sessions                []int
	duration, gap           time.Duration
	scale                   int
	chars                   float64
	compare                 bool
	jsonFile                string
	seed                    uint64
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure agent sessions, affinity off against on", Args: noArgs,
		Long: `Plays synthetic agent sessions in a closed loop: a shared system prompt, a
first message of its own, five more turns, each resending the conversation.
Without --url it measures the running warden; --compare measures it with
affinity off, then on, and leaves the setting as it was.`,
		Example: "  warden bench --sessions 4,8,16 --compare\n  warden bench --url http://127.0.0.1:8001 --model m --sessions 8",
	}
	fl := cmd.Flags()
	fl.SortFlags = false
	fl.IntSliceVar(&f.sessions, "sessions", []int{8}, "concurrent sessions, one run each")
	fl.DurationVar(&f.duration, "duration", 3*time.Minute, "length of each run")
	fl.BoolVar(&f.compare, "compare", false, "affinity off, then on")
	fl.StringVar(&f.url, "url", "", "another `ADDRESS`, default the running warden")
	fl.StringVar(&f.model, "model", "", "served `NAME`, default the only one")
	fl.StringVar(&f.api, "api", "chat", "chat (OpenAI) or messages (Anthropic)")
	fl.StringVar(&f.apiKey, "api-key", os.Getenv("WARDEN_BENCH_API_KEY"), "bearer token [WARDEN_BENCH_API_KEY]")
	fl.DurationVar(&f.gap, "gap", 0, "mean pause between a session's turns")
	fl.IntVar(&f.scale, "scale", 1, "divide all lengths by this, for slow engines")
	fl.Float64Var(&f.chars, "chars-per-token", 4, "characters of text per token")
	fl.Uint64Var(&f.seed, "seed", 1, "same seed, same texts")
	fl.StringVar(&f.jsonFile, "json", "", "also write the figures to this `FILE`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if f.compare && f.url != "" {
			return usageError(cmd, fmt.Errorf("--compare switches the running warden; --url is another address"))
		}
		ctx, stop := interruptible(cmd.Context())
		defer stop()
		if f.url != "" {
			return a.benchAll(ctx, nil, &f)
		}
		return a.ask(ctx, func(ctx context.Context, c *control.Client) error { return a.benchAll(ctx, c, &f) })
	}
	return cmd
}

func (a *app) benchAll(ctx context.Context, c *control.Client, f *benchFlags) (err error) {
	simulated := false
	settings := []string{"as is"}
	if c != nil {
		status, err := c.Status(ctx)
		if err != nil {
			return err
		}
		m, err := findModel(status, f.model)
		if err != nil {
			return err
		}
		f.url, f.model, simulated = status.Listen, m.Alias, status.Simulated
		if f.compare {
			settings = []string{"affinity off", "affinity on"}
			defer func() {
				restore, cancel := context.WithTimeout(context.WithoutCancel(ctx), budget)
				defer cancel()
				_, _ = c.SetAffinity(restore, m.Alias, m.Affinity)
			}()
		}
	}
	if f.model == "" {
		return fail(exitUsage, fmt.Errorf("--url needs --model"), "name the served model")
	}
	var rows []load.Named
	for _, n := range f.sessions {
		for i, setting := range settings {
			if f.compare {
				if _, err := c.SetAffinity(ctx, f.model, i == 1); err != nil {
					return err
				}
			}
			report, err := a.benchOne(ctx, f, n, setting)
			if err != nil {
				return err
			}
			report.Simulated = simulated
			rows = append(rows, load.Named{Name: setting, Report: report})
		}
	}
	return a.printBench(rows, f, simulated)
}

func (a *app) benchOne(ctx context.Context, f *benchFlags, sessions int, setting string) (load.Report, error) {
	shape := load.Reference().Scaled(f.scale)
	shape.Gap = f.gap
	var turns atomic.Int64
	done := make(chan struct{})
	defer close(done)
	go a.benchProgress(done, setting, sessions, f.duration, &turns)
	report, err := load.Run(ctx, load.Options{
		URL: f.url, Model: f.model, API: f.api, APIKey: f.apiKey, Sessions: sessions, Duration: f.duration,
		Shape: shape, CharsPerToken: f.chars, Seed: f.seed,
		OnTurn: func(load.Turn) { turns.Add(1) },
	})
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	if p := report.PromptTokensFirst; p != nil {
		if want := float64(shape.System + shape.First); *p < 0.8*want || *p > 1.2*want {
			fmt.Fprintf(a.err, "note: first prompts have %.0f tokens, meant were %.0f; --chars-per-token %.1f would meet it\n", *p, want, f.chars*want / *p)
		}
	}
	return report, err
}

// benchProgress says every ten seconds how far a run is.
func (a *app) benchProgress(done <-chan struct{}, setting string, sessions int, duration time.Duration, turns *atomic.Int64) {
	began := time.Now()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			fmt.Fprintf(a.err, "%s, %d sessions: %s of %s, %d turns\n", setting, sessions, short(time.Since(began)), short(duration), turns.Load())
		}
	}
}

func (a *app) printBench(rows []load.Named, f *benchFlags, simulated bool) error {
	if simulated {
		fmt.Fprintln(a.out, "SIMULATED engines: these figures say nothing about a GPU")
	}
	if err := load.WriteTable(a.out, rows); err != nil {
		return err
	}
	fmt.Fprintln(a.out, "TTFB: first byte of the answer, TTFT: first text; both measured at this client. HITS: cached share of prompt tokens as the engine measured it.")
	if f.jsonFile == "" {
		return nil
	}
	content, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(f.jsonFile, append(content, '\n'), 0o644)
}
