package vllm

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/vllm/setup"
)

// FindOptions say where to look. Empty fields are left out.
type FindOptions struct {
	Flag       string // --vllm: the command, or a virtual environment
	Configured string // the same from the configuration
	VirtualEnv string // $VIRTUAL_ENV
	SearchPath string // $PATH
	WorkDir    string // whose .venv is looked into
	ManagedDir string // where `warden setup` puts its environments
	Device     string // supervisor.DeviceCUDA, DeviceCPU; empty = any
}

// NotFoundError is returned by Find when no usable vLLM is there.
type NotFoundError struct {
	Device  string
	Refused []string // what was found and why it will not do
}

func (e *NotFoundError) Error() string {
	var b strings.Builder
	b.WriteString("no usable `vllm` found in the active virtual environment, on PATH, in ./.venv, or made by `warden setup`")
	for _, r := range e.Refused {
		b.WriteString("\n  " + r)
	}
	b.WriteString("\n  fix: " + e.Fix())
	return b.String()
}

// Fix is what a person can do about it.
func (e *NotFoundError) Fix() string {
	install := "warden setup"
	if e.Device == supervisor.DeviceCPU {
		install += " --device cpu"
	}
	return "let warden install it: `" + install + "`; or name yours: `--vllm /path/to/vllm`; or try without: `warden up --demo`"
}

// Find returns the vLLM to use: the one named by flag or configuration, which
// must do, or the first that does of the active virtual environment, PATH,
// ./.venv and the managed ones. It reads files and starts nothing.
func Find(o FindOptions) (Install, error) {
	for _, named := range []struct{ path, origin string }{{o.Flag, "--vllm"}, {o.Configured, "configuration"}} {
		if named.path == "" {
			continue
		}
		in, err := inspect(commandIn(named.path), named.origin, o.Device)
		if err != nil {
			return Install{}, fmt.Errorf("cannot use the vLLM that %s names: %s %w", named.origin, named.path, err)
		}
		return in, nil
	}
	missing := &NotFoundError{Device: o.Device}
	for _, c := range o.candidates() {
		in, err := inspect(c.path, c.origin, o.Device)
		if err == nil {
			return in, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			missing.Refused = append(missing.Refused, fmt.Sprintf("%s (%s) %v", c.path, c.origin, err))
		}
	}
	return Install{}, missing
}

type candidate struct{ path, origin string }

// candidates in the order of preference.
func (o FindOptions) candidates() []candidate {
	var out []candidate
	if o.VirtualEnv != "" {
		out = append(out, candidate{filepath.Join(o.VirtualEnv, "bin", "vllm"), "active virtual environment"})
	}
	for _, dir := range filepath.SplitList(o.SearchPath) {
		if filepath.IsAbs(dir) { // never run a program because of where the user stands
			out = append(out, candidate{filepath.Join(dir, "vllm"), "PATH"})
		}
	}
	if o.WorkDir != "" {
		out = append(out, candidate{filepath.Join(o.WorkDir, ".venv", "bin", "vllm"), "./.venv"})
	}
	if o.ManagedDir != "" {
		for _, env := range setup.Find(o.ManagedDir, o.Device) {
			out = append(out, candidate{env.VLLM, "warden setup"})
		}
	}
	return out
}

// commandIn accepts the root of a virtual environment for the command in it.
func commandIn(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, "bin", "vllm")
	}
	return path
}

// inspect judges one command. Its error completes a sentence that begins with
// the path.
func inspect(path, origin, device string) (Install, error) {
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return Install{}, fmt.Errorf("is not there: %w", os.ErrNotExist)
	}
	if err != nil {
		return Install{}, err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return Install{}, errors.New("is no program that can be run")
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return Install{}, err
	}
	d := readDistribution(path)
	warning, err := judge(d.version)
	if err != nil {
		return Install{}, err
	}
	in := Install{Argv: []string{path}, Version: d.version, Origin: origin, Device: supervisor.DeviceCUDA}
	if d.cpu {
		in.Device = supervisor.DeviceCPU
	}
	for _, text := range []string{warning, advised(d.version)} {
		if text != "" {
			in.Warnings = append(in.Warnings, text)
		}
	}
	switch {
	case device == "" || device == in.Device:
	case d.version == "":
		in.Device = device // it cannot be told, so the user is taken at their word
	case device == supervisor.DeviceCPU:
		return Install{}, errors.New("is a build for CUDA, and --device cpu was asked for")
	default:
		return Install{}, errors.New("is a build for the CPU: use --device cpu for it")
	}
	return in, nil
}
