package realladder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/proxies"
	"github.com/lm-warden/warden/router/placement"
)

// Options say what to measure.
type Options struct {
	Warden  string // the built program
	VLLM    string // the vllm program; "": one that `warden setup` made below Managed
	Managed string
	Peers   string // folder of virtual environments with other routers
	// Sessions are the loads, Rounds how often each is repeated, Length how
	// long each cell takes. Without a round only the engines' rates are measured.
	Sessions []int
	Rounds   int
	Length   time.Duration
	// Arms names what is compared, by parts of names; empty = all.
	Arms []string
	Seed uint64
	// Log is told what happens.
	Log io.Writer
	// Done is called after each round with what is known so far; may be nil.
	Done func(Report) error

	machine proxies.Machine
	rates   Rates
}

// Cell is one measurement.
type Cell struct {
	Arm         string      `json:"arm"`
	Round       int         `json:"round"`
	LoadAverage float64     `json:"load_average_before"`
	Report      load.Report `json:"report"`
}

// Run measures everything. What was measured before an error is returned with
// it.
func Run(ctx context.Context, o Options) (report Report, err error) {
	if o.machine, err = proxies.DescribeMachine(); err != nil {
		return report, err
	}
	all, err := chosen(arms(), o.Arms)
	if err != nil {
		return report, err
	}
	b, err := newBed(o)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, b.close(err != nil)) }()
	b.machine.Versions = b.versions(ctx)
	report = Report{Machine: b.machine, Started: time.Now().UTC(), Seconds: o.Length.Seconds(), Scale: Scale, Shape: shape()}
	all = slices.DeleteFunc(all, func(a arm) bool {
		why := a.missing(b)
		if why != "" {
			report.Absent = append(report.Absent, Absent{a.name, why})
			fmt.Fprintf(o.Log, "absent: %s (%s)\n", a.name, why)
		}
		return why != ""
	})
	if o.Rounds == 0 {
		all = nil
	}
	if err := b.prepare(ctx, all, &report); err != nil {
		return report, err
	}
	if o.Rounds == 0 {
		return report, b.measureAgain(ctx, &report)
	}
	for round := range o.Rounds {
		order := slices.Clone(all)
		if round%2 == 1 { // the other way round: what changes with time hits all alike
			slices.Reverse(order)
		}
		for _, sessions := range o.Sessions {
			for _, a := range order {
				if err := b.cell(ctx, a, sessions, round, &report); err != nil {
					return report, err
				}
			}
		}
		err := errors.Join(b.measure(ctx, &report), report.simulate(o.Seed))
		if err == nil && o.Done != nil {
			err = o.Done(report)
		}
		if err != nil {
			return report, err
		}
	}
	return report, nil
}

// prepare starts the engines and measures what they cost.
func (b *bed) prepare(ctx context.Context, all []arm, report *Report) error {
	began := time.Now()
	if _, err := b.useWarden(ctx, map[string]any{"affinity": placement.PolicyBalance}); err != nil {
		return err
	}
	b.leaveWarden()
	for _, a := range all {
		report.Arms = append(report.Arms, a.name)
		if a.name == ownName {
			if err := b.startOwn(ctx); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(b.Log, "engines ready after %v\n", time.Since(began).Round(time.Second))
	// Engines that have computed nothing yet are slower: by 15 to 25 % in the first
	// measurement of each of three runs.
	if _, err := measureRates(ctx, b.client, b.engines); err != nil {
		return err
	}
	return b.measure(ctx, report)
}

// measureAgain measures the rates as often as a whole run does.
func (b *bed) measureAgain(ctx context.Context, report *Report) error {
	const more = 2
	for range more {
		if err := b.measure(ctx, report); err != nil {
			return err
		}
	}
	return nil
}

// measure finds out once more what the engines cost: a machine that others use
// changes from round to round.
func (b *bed) measure(ctx context.Context, report *Report) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	rates, err := measureRates(ctx, b.client, b.engines)
	if err != nil {
		return fmt.Errorf("the engines' rates cannot be measured: %w", err)
	}
	rates.Loads = b.Sessions
	report.Rates = append(report.Rates, rates)
	b.rates = mean(report.Rates)
	fmt.Fprintf(b.Log, "a cold prompt: %.0f ms + %.3f ms a token; a cached token: %.1f µs; a decode step: %.1f ms + %.1f ms a request (within %.0f %%)\n",
		1e3*rates.Prefill[0], 1e3*rates.Prefill[1], 1e6*rates.Cached, 1e3*rates.Decode[0], 1e3*rates.Decode[1], 100*rates.Error)
	return nil
}

// cell measures one arm under one load.
func (b *bed) cell(ctx context.Context, a arm, sessions, round int, report *Report) error {
	if err := b.settle(ctx); err != nil {
		return err
	}
	before := proxies.LoadAverage()
	url, stop, err := a.start(ctx, b)
	if err != nil {
		return fmt.Errorf("%s: %w", a.name, err)
	}
	defer stop()
	measured, err := load.Run(ctx, load.Options{
		URL: url, Model: model, Sessions: sessions, Duration: b.Length, Shape: shape(), CharsPerToken: 1,
		Seed: b.Seed, Part: uint64(len(report.Cells)), Client: loadClient(sessions),
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return fmt.Errorf("%s, %d sessions: %w", a.name, sessions, err)
	}
	report.Cells = append(report.Cells, Cell{Arm: a.name, Round: round, LoadAverage: before, Report: measured})
	f := figuresOf(measured)
	fmt.Fprintf(b.Log, "round %d, %2d sessions, %-32s %5.0f sessions/h %6.0f tokens/min, TTFT p50 %s p95 %s, %d failed\n",
		round+1, sessions, a.name, f.SessionsPerHour, f.TokensPerMinute, seconds(f.P50), seconds(f.P95), measured.TurnsFailed)
	return nil
}
