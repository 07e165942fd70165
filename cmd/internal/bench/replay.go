package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/accesslog"
	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/cmd/internal/replay"
	"github.com/lm-warden/warden/supervisor/control"
)

// checkReplay refuses what a recording decides itself.
func (o *Options) checkReplay() error {
	switch {
	case len(o.Replay) == 0 && o.Speed != 1:
		return errors.New("--speed goes with --replay")
	case len(o.Replay) == 0:
		return nil
	case !(o.Speed > 0) || math.IsInf(o.Speed, 0):
		return fmt.Errorf("--speed %v: must be a number above 0", o.Speed)
	case o.Rounds != 1 || o.Scale != 1 || o.Gap != 0:
		return errors.New("--rounds, --scale and --gap do not go with --replay: the log says what is sent and when")
	}
	return nil
}

// readPlan makes the recording ready.
func (b *bench) readPlan() error {
	files, err := accesslog.Files(b.o.Replay...)
	if err != nil {
		return exit.Fail(exit.Failed, fmt.Errorf("cannot read the access log: %w", err), "`warden up --access-log FILE` writes one")
	}
	var all []accesslog.Line
	for _, file := range files {
		lines, cut, err := accesslog.ReadFile(file)
		if err != nil {
			return exit.Fail(exit.Failed, err, "--replay takes what `warden up --access-log FILE` wrote; remove a damaged line to go on without it")
		}
		if cut {
			fmt.Fprintf(b.o.Err, "warning: %s ends in the middle of a line, which is left out\n", file)
		}
		all = append(all, lines...)
	}
	b.logs = files
	if b.plan, err = replay.Make(all, b.o.Limit); err != nil {
		return exit.Fail(exit.Failed, b.named(err), "")
	}
	return nil
}

// named says which logs err is about.
func (b *bench) named(err error) error { return fmt.Errorf("%s: %w", strings.Join(b.logs, ", "), err) }

// asked are the models that the recording is played to: the one that was
// named, for all requests, or those it was made with.
func (b *bench) asked(s control.Status) ([]control.Model, error) {
	names := b.plan.Models
	if b.o.Model != "" {
		names = []string{b.o.Model}
	}
	var found []control.Model
	for _, name := range names {
		m, err := remote.FindModel(s, name)
		if err != nil {
			return nil, b.named(fmt.Errorf("%w (--model NAME asks one model for everything)", err))
		}
		found = append(found, m)
	}
	if b.o.Model != "" {
		b.askOne(found[0].Alias)
	}
	return found, nil
}

// askOne asks one model for everything.
func (b *bench) askOne(name string) {
	b.o.Model = name
	for i := range b.plan.Talks {
		b.plan.Talks[i].Model = name
	}
}

// replayAll plays the recording under every setting.
func (b *bench) replayAll(ctx context.Context) error {
	then, err := b.plan.Then.Report()
	if err != nil {
		return b.named(err)
	}
	then.Simulated = b.plan.Simulated
	name := "recorded"
	if then.Simulated {
		name += " (SIMULATED)"
	}
	b.results = append(b.results, result{load.Named{Name: name, Report: then}, b.plan.Then.Curve(name, plotColumns)})
	for i, setting := range b.settings {
		measured, drift, err := b.replayOne(ctx, setting, fmt.Sprintf("replay %d of %d", i+1, len(b.settings)))
		if err != nil {
			return err
		}
		report, err := measured.Report()
		if err != nil {
			return exit.Fail(exit.Failed, err, "check --model and --api-key")
		}
		name := "replayed"
		if b.o.Compare {
			name += ", " + setting
		}
		report = b.keep(name, name, measured, nil)
		b.played = append(b.played, ReplayRun{setting, report, drift, drift.PromptOffP95()})
		if report.TurnsFailed > 0 {
			fmt.Fprintf(b.o.Err, "warning: %s: %d requests failed; the first: %s\n", name, report.TurnsFailed, report.FirstError)
		}
	}
	return nil
}

func (b *bench) replayOne(ctx context.Context, setting, name string) (load.Measurement, load.Drift, error) {
	if err := b.change(ctx, setting); err != nil {
		return load.Measurement{}, load.Drift{}, err
	}
	b.settle(ctx)
	o := b.options(1)
	o.Part = b.part
	b.part++
	p := b.follow(name, time.Duration(float64(b.plan.Length)/b.o.Speed))
	defer p.close()
	o.OnTurn = p.turn
	return load.Replay(ctx, o, slices.Clone(b.plan.Talks), b.o.Speed)
}
