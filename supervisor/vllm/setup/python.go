package setup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Python versions that vLLM's wheels from 0.24 to 0.33 allow (their
// Requires-Python; 3.10 was dropped after 0.30).
var (
	oldestPython    = [2]int{3, 10}
	newestPython    = [2]int{3, 14}
	without310Since = "0.31"
)

// pythonNames in the order of preference: the versions that vLLM's own images
// and most wheels are built with come first.
var pythonNames = []string{"python3.12", "python3.11", "python3.13", "python3.14", "python3.10", "python3", "python"}

// uvPython is what uv is asked for when the machine has no usable Python; uv
// fetches it itself.
const uvPython = "3.12"

type interpreter struct {
	path    string
	version [2]int
	pip     bool // `venv` can put pip into an environment
}

// probe prints what an interpreter is. Debian keeps ensurepip in a package of
// its own, and without it `python -m venv` fails half-way.
const probe = `import sys, importlib.util as u; print(*sys.version_info[:2], int(u.find_spec("ensurepip") is not None), sys.executable)`

// findPython picks the interpreter. With uv none is an answer too.
func findPython(ctx context.Context, o Options, uv bool) (interpreter, error) {
	names := pythonNames
	if o.Python != "" {
		names = []string{o.Python}
	}
	var refused []string
	for _, name := range names {
		path, err := lookPath(o, name)
		if err != nil {
			continue
		}
		p, err := ask(ctx, o, path)
		if err == nil {
			err = p.usable(o.Version, uv)
		}
		if err == nil {
			return p, nil
		}
		if ctx.Err() != nil {
			return interpreter{}, ctx.Err()
		}
		refused = append(refused, fmt.Sprintf("%s: %v", path, err))
	}
	if uv && o.Python == "" {
		return interpreter{}, nil
	}
	return interpreter{}, noPython(o, refused)
}

func noPython(o Options, refused []string) error {
	what := "no usable Python on PATH"
	if o.Python != "" {
		what = fmt.Sprintf("%s cannot be used", o.Python)
	}
	if len(refused) > 0 {
		what += " (" + strings.Join(refused, "; ") + ")"
	}
	return fmt.Errorf("%s: install Python 3.11 to 3.14 with its venv module (Debian and Ubuntu: apt install python3-venv), or install uv, which brings its own", what)
}

func ask(ctx context.Context, o Options, path string) (interpreter, error) {
	var last string
	err := o.Run(ctx, Command{Argv: []string{path, "-c", probe}, Env: pythonEnv(o.Env)}, func(s string) { last = s })
	if err != nil {
		return interpreter{}, errors.New("does not run")
	}
	f := strings.SplitN(last, " ", 4)
	if len(f) != 4 {
		return interpreter{}, fmt.Errorf("answered %q", last)
	}
	major, err1 := strconv.Atoi(f[0])
	minor, err2 := strconv.Atoi(f[1])
	if err1 != nil || err2 != nil {
		return interpreter{}, fmt.Errorf("answered %q", last)
	}
	// sys.executable, not the name that was found: a pyenv shim would decide
	// anew, by the current directory, each time the environment is used.
	return interpreter{path: f[3], version: [2]int{major, minor}, pip: f[2] == "1"}, nil
}

func (p interpreter) usable(vllm string, uv bool) error {
	if older(p.version, oldestPython) || older(newestPython, p.version) {
		return fmt.Errorf("is Python %s", p)
	}
	if p.version == oldestPython && compareVersions(vllm, without310Since) >= 0 {
		return fmt.Errorf("is Python %s, and vLLM %s needs 3.11", p, vllm)
	}
	if !p.pip && !uv {
		return errors.New("has no ensurepip")
	}
	return nil
}

func (p interpreter) String() string { return fmt.Sprintf("%d.%d", p.version[0], p.version[1]) }

func older(a, b [2]int) bool { return a[0] < b[0] || a[0] == b[0] && a[1] < b[1] }

// pythonEnv is env without what would make one Python load another's modules.
func pythonEnv(env []string) []string {
	return without(env, "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__")
}

// without returns env without the named variables.
func without(env []string, names ...string) []string {
	var kept []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		drop := false
		for _, n := range names {
			drop = drop || n == name
		}
		if !drop {
			kept = append(kept, kv)
		}
	}
	return kept
}

// lookPath is exec.LookPath with the PATH of the given environment.
func lookPath(o Options, name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, executable(name)
	}
	for _, dir := range filepath.SplitList(getenv(o.Env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue // never run a program because of where the user stands
		}
		path := filepath.Join(dir, name)
		if executable(path) == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return os.ErrPermission
	}
	return nil
}

func getenv(env []string, name string) string {
	value := ""
	for _, kv := range env {
		if n, v, ok := strings.Cut(kv, "="); ok && n == name {
			value = v
		}
	}
	return value
}
