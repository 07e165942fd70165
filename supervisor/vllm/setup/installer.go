package setup

import (
	"context"
	"path/filepath"
	"strings"
)

// installer makes environments and installs packages: with uv where it is
// present (several times faster), else with the environment's own pip.
type installer struct {
	uv    string   // path of uv; empty = pip
	index []string // UV_… variables that say what pip's configuration says
}

func findInstaller(ctx context.Context, o Options) (installer, error) {
	uv, err := lookPath(o, "uv")
	if err != nil {
		return installer{}, ctx.Err()
	}
	return installer{uv: uv}, ctx.Err()
}

func (i installer) name() string {
	if i.uv != "" {
		return "uv"
	}
	return "pip"
}

func (i installer) version(p interpreter) string {
	if p.path == "" {
		return uvPython
	}
	return p.String()
}

func (i installer) venv(p interpreter, dir string) Command {
	if i.uv == "" {
		return Command{Argv: []string{p.path, "-m", "venv", dir}}
	}
	python := p.path
	if python == "" {
		python = uvPython
	}
	// The journal is in the directory already.
	return Command{Argv: []string{i.uv, "venv", "--allow-existing", "--python", python, dir}}
}

func (i installer) install(dir string, args ...string) Command {
	python := filepath.Join(dir, "bin", "python")
	argv := []string{python, "-m", "pip", "install", "--no-input", "--progress-bar", "off"}
	if i.uv != "" {
		// pip takes the best version of all indexes, uv by default that of the
		// first index which knows the name; the configuration was written for pip.
		argv = []string{i.uv, "pip", "install", "--python", python, "--index-strategy", "unsafe-best-match"}
	}
	return Command{Argv: append(argv, args...)}
}

// environ is the user's environment without what would send packages
// elsewhere than into the managed environment.
func (i installer) environ(env []string) []string {
	out := without(pythonEnv(env), "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_LOG", "TMPDIR")
	out = append(out, "PIP_USER=0", "PIP_DISABLE_PIP_VERSION_CHECK=1", "NO_COLOR=1", "PYTHONUNBUFFERED=1")
	if i.uv != "" {
		out = append(out, "UV_NO_PROGRESS=1")
		out = append(out, i.index...)
	}
	return out
}

// learnIndex makes uv, which does not read pip's configuration, use the same
// index. A setting that uv has no word for makes pip do the work instead.
func (i *installer) learnIndex(ctx context.Context, o Options, p interpreter) {
	if i.uv == "" || p.path == "" {
		return
	}
	var lines []string
	err := o.Run(ctx, Command{Argv: []string{p.path, "-m", "pip", "config", "list"}, Env: pythonEnv(o.Env)},
		func(s string) { lines = append(lines, s) })
	if err != nil {
		return // no pip, so no configuration of it
	}
	index, ok := uvIndex(lines, o.Env)
	if !ok && p.pip {
		i.uv = ""
		return
	}
	i.index = index
}

// uvWords are pip's settings about where packages come from and uv's variables
// for them. uv takes lists separated as given here.
var uvWords = map[string]struct{ name, separator string }{
	"index-url":       {"UV_DEFAULT_INDEX", " "},
	"extra-index-url": {"UV_INDEX", " "},
	"find-links":      {"UV_FIND_LINKS", ","},
	"trusted-host":    {"UV_INSECURE_HOST", " "},
	"cert":            {"SSL_CERT_FILE", ""},
}

// uvIndex translates `pip config list`: lines like global.index-url='https://…'
// with the command's own section after global, and :env: last. ok is false
// when a setting has no counterpart.
func uvIndex(lines, env []string) (vars []string, ok bool) {
	value := map[string]string{}
	for _, section := range []string{"global", "install", ":env:"} {
		for _, line := range lines {
			key, v, found := strings.Cut(line, "=")
			name, isOurs := strings.CutPrefix(key, section+".")
			if found && isOurs {
				value[name] = pythonString(v)
			}
		}
	}
	for _, untranslatable := range []string{"no-index", "constraint", "proxy", "client-cert", "config-settings"} {
		if value[untranslatable] != "" {
			return nil, false
		}
	}
	for name, word := range uvWords {
		v := strings.TrimSpace(value[name])
		if word.separator != "" {
			v = strings.Join(strings.Fields(v), word.separator)
		}
		// What the user tells uv directly stands.
		if v == "" || getenv(env, word.name) != "" {
			continue
		}
		vars = append(vars, word.name+"="+v)
	}
	return vars, true
}

// pythonString reads the repr() of a Python string as far as settings need it.
func pythonString(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '\'' || s[0] == '"') && s[len(s)-1] == s[0] {
		s = s[1 : len(s)-1]
	}
	return strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\\`, `\`, `\'`, `'`).Replace(s)
}
