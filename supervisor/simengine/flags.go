package simengine

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed vllmflags.txt
var vllmFlags string

// flagKind is how many values a flag takes.
type flagKind string

const (
	kindSwitch flagKind = "switch"
	kindBool   flagKind = "bool"
	kindOne    flagKind = "one"
	kindMany   flagKind = "many"
)

// simFlags are this engine's own.
var simFlags = []string{
	"--sim-profile", "--sim-load", "--sim-speed", "--sim-seed", "--sim-words", "--sim-tokenizer",
	"--sim-fault", "--sim-tree", "--sim-dialect", "--sim-orphan-limit",
}

// flagTable maps every spelling to the flag's main name and kind.
func flagTable() map[string]flagSpec {
	table := make(map[string]flagSpec)
	for line := range strings.Lines(vllmFlags) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] == "#" {
			continue
		}
		last := len(fields) - 1
		for _, name := range fields[:last] {
			table[name] = flagSpec{name: fields[0], kind: flagKind(fields[last])}
		}
	}
	for _, name := range simFlags {
		table[name] = flagSpec{name: name, kind: kindOne}
	}
	return table
}

type flagSpec struct {
	name string
	kind flagKind
}

// usageError ends a start with exit status 2, as argparse does.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

// arguments are a parsed command line.
type arguments struct {
	model string
	// values holds each given flag's values; a repeated flag's last ones count,
	// but those of --sim-fault add up.
	values map[string][]string
}

// parseArguments reads `serve MODEL flags` by vLLM's rules: underscores count
// as hyphens, --flag=value and --no-flag work, --flag.key value sets a part of a
// JSON flag, and what is unknown is listed in one error.
func parseArguments(args []string) (arguments, error) {
	out := arguments{values: make(map[string][]string)}
	if len(args) == 0 || args[0] != "serve" {
		return out, &usageError{"the simulated engine only knows the sub-command serve"}
	}
	table := flagTable()
	var unknown []string
	for i := 1; i < len(args); {
		arg := args[i]
		i++
		if !strings.HasPrefix(arg, "-") || arg == "-" {
			if out.model == "" && len(unknown) == 0 {
				out.model = arg
			} else {
				unknown = append(unknown, arg)
			}
			continue
		}
		name, inline, hasInline := strings.Cut(arg, "=")
		spec, negated, ok := lookup(table, name)
		if !ok {
			unknown = append(unknown, arg)
			continue
		}
		var given []string
		if hasInline {
			given = []string{inline}
		}
		n, err := takeValues(spec, name, negated, hasInline, args[i:])
		if err != nil {
			return out, err
		}
		given = append(given, args[i:i+n]...)
		i += n
		out.store(spec, negated, given)
	}
	if len(unknown) > 0 {
		return out, &usageError{"unrecognized arguments: " + strings.Join(unknown, " ")}
	}
	return out, nil
}

// lookup finds a flag by any of its spellings.
func lookup(table map[string]flagSpec, name string) (spec flagSpec, negated, ok bool) {
	name = strings.ReplaceAll(name, "_", "-")
	base, _, dotted := strings.Cut(name, ".")
	if spec, ok = table[base]; ok {
		if dotted {
			spec.kind = kindOne
		}
		return spec, false, true
	}
	if len(name) > 2 && strings.HasPrefix(name, "-O") { // -O3
		return flagSpec{name: "--optimization-level", kind: kindSwitch}, false, true
	}
	if positive, found := strings.CutPrefix(name, "--no-"); found {
		spec, ok = table["--"+positive]
		return spec, true, ok && spec.kind == kindBool
	}
	return flagSpec{}, false, false
}

// takeValues says how many of the following arguments belong to the flag.
func takeValues(spec flagSpec, name string, negated, inline bool, rest []string) (int, error) {
	available := 0
	for available < len(rest) && !isFlag(rest[available]) {
		available++
	}
	switch {
	case spec.kind == kindSwitch || spec.kind == kindBool || negated:
		if inline {
			return 0, &usageError{fmt.Sprintf("argument %s: ignored explicit argument", name)}
		}
		return 0, nil
	case inline:
		return 0, nil
	case available == 0 && spec.kind == kindOne:
		return 0, &usageError{fmt.Sprintf("argument %s: expected one argument", name)}
	case available == 0:
		return 0, &usageError{fmt.Sprintf("argument %s: expected at least one argument", name)}
	case spec.kind == kindOne:
		return 1, nil
	}
	return available, nil
}

// isFlag tells a flag from a value; a negative number is a value.
func isFlag(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' && !(arg[1] >= '0' && arg[1] <= '9')
}

func (a *arguments) store(spec flagSpec, negated bool, given []string) {
	switch {
	case negated:
		given = []string{"false"}
	case spec.kind == kindSwitch || spec.kind == kindBool:
		given = []string{"true"}
	}
	if spec.name == "--sim-fault" {
		given = slices.Concat(a.values[spec.name], given)
	}
	a.values[spec.name] = given
}

// last returns a flag's last value, or "".
func (a *arguments) last(name string) string {
	values := a.values[name]
	if len(values) == 0 {
		return ""
	}
	return values[len(values)-1]
}

func (a *arguments) on(name string) bool { return a.last(name) == "true" }
