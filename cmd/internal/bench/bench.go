// Package bench measures agent sessions against an address: bench.go runs the
// loads, access.go gets in, replay.go plays a recorded load, show.go shows and writes
// what they measured, replayfile.go as a recorded one, follow.go how far a run is.
// The load itself is package load's.
package bench

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/cmd/internal/load"
	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/cmd/internal/replay"
	"github.com/lm-warden/warden/cmd/internal/words"
	"github.com/lm-warden/warden/supervisor/control"
)

// Options say what to measure and where to show it. The zero value of a figure is
// refused by Check.
type Options struct {
	URL, Model, API, APIKey string
	// KeyFile holds an API key, CA certificates to trust beside the system's.
	KeyFile, CA          string
	Sessions             []int
	Rounds               int
	Duration, Gap        time.Duration
	Scale                int     // all lengths divided by
	Chars                float64 // of text for a token; 0: ask the model first
	Compare, Plot, ASCII bool
	JSONFile             string // "-" prints it instead of the table
	Seed                 uint64

	// Replay names access logs to play instead, or patterns of their names; Speed
	// is how much faster that goes, Limit how much of it, 0 all.
	Replay []string
	Speed  float64
	Limit  time.Duration

	Version  string // of warden, for the file
	Out, Err io.Writer
	Live     bool // Err is a terminal: progress is drawn in place

	tls *tls.Config // made of CA
}

// Check refuses what makes no sense together.
func (o *Options) Check() error {
	switch {
	case o.Compare && o.URL != "":
		return errors.New("--compare switches the running warden; --url is another address")
	case o.URL != "" && o.Model == "":
		return errors.New("--url needs --model, the name it serves")
	case !slices.Contains(load.APIs, o.API):
		return fmt.Errorf("--api %q is not one of %s", o.API, strings.Join(load.APIs, ", "))
	case o.Rounds < 1, o.Scale < 1, o.Duration <= 0, o.Gap < 0, o.Chars < 0, len(o.Sessions) == 0:
		return errors.New("--rounds, --scale and --sessions must be at least 1, times positive")
	}
	for _, n := range o.Sessions {
		if n < 1 {
			return fmt.Errorf("--sessions %d: must be at least 1", n)
		}
	}
	return o.checkReplay()
}

// bench is one invocation.
type bench struct {
	o        Options
	settings []string
	client   *control.Client // nil with --url
	// What the daemon says of what is measured; zero with --url.
	simulated bool
	capacity  int             // tokens that the KV caches of all replicas hold; 0 unknown
	models    []control.Model // that --compare switches

	plan   replay.Plan // with --replay
	logs   []string    // that it was made of
	played []ReplayRun

	part    uint64 // of the next run: none sees another's prompts
	started time.Time
	results []result
}

// result is what one setting measured at one number of sessions.
type result struct {
	load.Named
	curve load.Curve
}

// Address measures whatever serves at o.URL.
func Address(ctx context.Context, o Options) error {
	if err := o.enter(); err != nil {
		return err
	}
	b := &bench{o: o, settings: []string{asIs}}
	if len(o.Replay) > 0 {
		if err := b.readPlan(); err != nil {
			return err
		}
		b.askOne(o.Model)
	}
	return b.run(ctx)
}

// Running measures the running warden.
func Running(ctx context.Context, c *control.Client, o Options) (err error) {
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	if err := o.enter(); err != nil {
		return err
	}
	if err := o.mayEnter(status); err != nil {
		return err
	}
	b := &bench{o: o, client: c, settings: []string{asIs}, simulated: status.Simulated}
	if err := b.choose(status); err != nil {
		return err
	}
	b.o.URL, b.o.Model = status.Listen, b.models[0].Alias
	for _, r := range status.Replicas {
		if r.Engine != nil && slices.ContainsFunc(b.models, func(m control.Model) bool { return m.Alias == r.Model }) {
			b.capacity += r.Engine.KVCapacityTokens
		}
	}
	if o.Compare {
		b.settings = []string{settingOff, settingOn}
		defer func() { err = errors.Join(err, b.restore(ctx)) }()
	}
	return b.run(ctx)
}

// choose finds the models to measure.
func (b *bench) choose(s control.Status) error {
	if len(b.o.Replay) == 0 {
		m, err := remote.FindModel(s, b.o.Model)
		b.models = []control.Model{m}
		return err
	}
	if err := b.readPlan(); err != nil {
		return err
	}
	var err error
	b.models, err = b.asked(s)
	return err
}

// Settings: the last two are those of --compare.
const (
	asIs       = "as is"
	settingOff = "affinity off"
	settingOn  = "affinity on"
)

// restoreLimit bounds how long giving it back may take.
const restoreLimit = 5 * time.Second

// restore gives the models the affinity they had, also after Ctrl-C.
func (b *bench) restore(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), restoreLimit)
	defer cancel()
	for _, m := range b.models {
		_, failed := b.client.SetAffinity(ctx, m.Alias, m.Affinity)
		word := map[bool]string{true: "on", false: "off"}[m.Affinity]
		err = errors.Join(err, exit.Fail(exit.Failed, failed, fmt.Sprintf("affinity was %s before: `warden affinity %s %s`", word, word, m.Alias)))
	}
	return err
}

// run measures everything, then shows it; what was measured before an
// interruption is shown, too.
func (b *bench) run(ctx context.Context) error {
	b.started = time.Now()
	err := b.calibrate(ctx)
	switch {
	case err != nil:
	case len(b.o.Replay) > 0:
		err = b.replayAll(ctx)
	default:
		err = b.all(ctx)
	}
	if len(b.results) > 0 {
		err = errors.Join(err, b.show())
	}
	return err
}

// calibrate asks how long a token is, unless the user said so.
func (b *bench) calibrate(ctx context.Context) error {
	if b.o.Chars > 0 {
		return nil
	}
	chars, err := load.Calibrate(ctx, b.options(1))
	if err != nil {
		return exit.Fail(exit.Failed, fmt.Errorf("cannot measure %s: %w", b.o.URL, err), fixFor(err))
	}
	b.o.Chars = chars
	return nil
}

// all runs every number of sessions under every setting.
func (b *bench) all(ctx context.Context) error {
	runs := len(b.o.Sessions) * len(b.settings) * b.o.Rounds
	done := 0
	for _, n := range b.o.Sessions {
		sums := make([]load.Measurement, len(b.settings))
		rounds := make([][]load.Report, len(b.settings))
		for round := range b.o.Rounds {
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
	if err := b.change(ctx, setting); err != nil {
		return load.Measurement{}, err
	}
	b.settle(ctx)
	o := b.options(sessions)
	o.Part = b.part
	b.part++
	p := b.follow(name, b.o.Duration)
	o.OnTurn = p.turn
	measured, err := load.Measure(ctx, o)
	p.close()
	if err == nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return measured, err
}

// change switches the models to a setting.
func (b *bench) change(ctx context.Context, setting string) error {
	if !b.o.Compare {
		return nil
	}
	for _, m := range b.models {
		if _, err := b.client.SetAffinity(ctx, m.Alias, setting == settingOn); err != nil {
			return err
		}
	}
	return nil
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
		URL: b.o.URL, Model: b.o.Model, API: b.o.API, APIKey: b.o.APIKey, Sessions: sessions, Duration: b.o.Duration,
		Shape: b.shape(), CharsPerToken: b.o.Chars, Seed: b.o.Seed, TLS: b.o.tls,
	}
}

func (b *bench) shape() load.Shape {
	shape := load.Reference().Scaled(b.o.Scale)
	shape.Gap = b.o.Gap
	return shape
}
