package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Devices that an environment can be made for.
const (
	CUDA = "cuda"
	CPU  = "cpu"
)

// DefaultVersion is the vLLM version installed when none is asked for: the
// newest one that warden was tried with.
const DefaultVersion = "0.32.0"

// Options says what to install and where. Dir is required; the zero value of
// everything else works.
type Options struct {
	Dir     string // holds one environment per device and version
	Device  string // CUDA (default) or CPU
	Version string // of vLLM; default DefaultVersion
	Python  string // interpreter for the environment; default: the best one on PATH
	Driver  string // installed NVIDIA driver, such as "580.65.06"; CUDA only
	Fresh   bool   // throw an existing environment away and start over

	// Progress receives every change, from the goroutine that called Setup.
	Progress func(Step)

	Env    []string                                   // for pip and uv; default the process's own
	Run    Runner                                     // default Exec
	Free   func(dir string) (bytes uint64, err error) // room on dir's file system; default statfs
	Exists func(path string) bool                     // default: os.Stat succeeds
	Now    func() time.Time                           // default time.Now
}

func (o Options) withDefaults() Options {
	if o.Device == "" {
		o.Device = CUDA
	}
	if o.Version == "" {
		o.Version = DefaultVersion
	}
	if o.Progress == nil {
		o.Progress = func(Step) {}
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Run == nil {
		o.Run = Exec
	}
	if o.Free == nil {
		o.Free = freeBytes
	}
	if o.Exists == nil {
		o.Exists = exists
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Status is what happened to a step.
type Status string

const (
	Started Status = "started"
	Output  Status = "output" // one line of what the step's program prints
	Done    Status = "done"
	Skipped Status = "skipped" // finished by an earlier run
	Failed  Status = "failed"
)

// Step is one progress report.
type Step struct {
	Number, Total int
	Name          string // stable: check venv vllm torch requirements identity verify
	Title         string // for people
	Status        Status
	Detail        string // an output line, what was found, or why it failed
	Elapsed       time.Duration
}

// Setup makes the environment, or finishes or confirms an existing one. It
// returns when the environment is complete, on the first error, or soon after
// ctx ends, with every program that it started gone.
func Setup(ctx context.Context, o Options) (Environment, error) {
	o = o.withDefaults()
	if o.Dir == "" {
		return Environment{}, errors.New("setup: no directory given for the managed environment")
	}
	r, err := recipeFor(o)
	if err != nil {
		return Environment{}, err
	}
	dir := Path(o.Dir, o.Device, o.Version)
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return Environment{}, fmt.Errorf("cannot make %s: %w", o.Dir, err)
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return Environment{}, err
	}
	defer unlock()
	b := &build{o: o, dir: dir, steps: r}
	defer os.RemoveAll(b.scratch())
	return b.run(ctx)
}

// build is one run of a recipe. What steps learn is kept for later steps.
type build struct {
	o       Options
	dir     string
	steps   []step
	journal Journal
	python  interpreter // the one that makes the environment; zero when uv brings its own
	install installer
}

type step struct {
	name, title string
	run         func(context.Context, *build, func(line string)) (detail string, err error)
}

func (b *build) run(ctx context.Context) (Environment, error) {
	if err := b.open(); err != nil {
		return Environment{}, err
	}
	for i, s := range b.steps {
		report := b.reporter(i, s)
		if b.journal.has(s.name) {
			report(Skipped, "")
			continue
		}
		report(Started, "")
		detail, err := s.run(ctx, b, func(line string) { report(Output, line) })
		if ctx.Err() != nil {
			err = fmt.Errorf("interrupted during %q: run `warden setup` again to go on from here: %w", s.title, ctx.Err())
		}
		if err != nil {
			report(Failed, err.Error())
			return Environment{}, fmt.Errorf("setup of vLLM %s (%s) in %s: %w", b.o.Version, b.o.Device, b.dir, err)
		}
		if err := b.finished(s.name, i == len(b.steps)-1); err != nil {
			report(Failed, err.Error())
			return Environment{}, err
		}
		report(Done, detail)
	}
	return environment(b.dir, b.journal), nil
}

func (b *build) reporter(i int, s step) func(Status, string) {
	begun := b.o.Now()
	return func(st Status, detail string) {
		b.o.Progress(Step{
			Number: i + 1, Total: len(b.steps), Name: s.name, Title: s.title,
			Status: st, Detail: detail, Elapsed: b.o.Now().Sub(begun),
		})
	}
}

// open reads the journal of an existing environment and decides what of it can
// be kept.
func (b *build) open() error {
	j, err := readJournal(b.dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if !empty(b.dir) {
			return fmt.Errorf("%s exists and was not made by warden setup: move it away, or choose another directory", b.dir)
		}
		b.journal = Journal{Device: b.o.Device, Version: b.o.Version}
		return nil
	case err != nil && !b.o.Fresh:
		return fmt.Errorf("%w: run `warden setup --fresh` to make it anew", err)
	}
	// A system upgrade can remove the interpreter that the environment links to.
	if b.o.Fresh || !b.o.Exists(filepath.Join(b.dir, "bin", "python")) {
		b.journal = Journal{Device: b.o.Device, Version: b.o.Version}
		return nil
	}
	b.journal = j
	if j.Complete && !b.o.Exists(filepath.Join(b.dir, "bin", "vllm")) {
		b.journal.Complete, b.journal.Steps = false, []string{stepVenv}
	}
	if !b.journal.Complete {
		// What the check finds (interpreter, installer) is needed by later
		// steps, and the room on the disk may have changed.
		b.journal.drop(stepCheck)
	}
	return nil
}

func (b *build) finished(name string, last bool) error {
	if name != stepCheck || last {
		b.journal.Steps = append(b.journal.Steps, name)
	}
	if last {
		b.journal.Steps = append(b.journal.Steps, stepCheck)
		b.journal.Complete = true
		b.journal.FinishedAt = b.o.Now().UTC()
	}
	if !b.o.Exists(filepath.Join(b.dir, JournalName)) {
		return nil // nothing is on disk yet
	}
	return writeJournal(b.dir, b.journal)
}

// Path is the directory of the environment for a device and version below dir.
func Path(dir, device, version string) string {
	if device == CPU {
		return filepath.Join(dir, "vllm-cpu-"+version)
	}
	return filepath.Join(dir, "vllm-"+version)
}
