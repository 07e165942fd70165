package vllm

import (
	"fmt"
	"strconv"
	"strings"
)

// owned are vLLM flags that warden sets itself or that would break what it
// relies on, with what to use instead. A name that ends in "*" stands for all
// flags that begin so.
var owned = []struct{ flags, instead string }{
	{"--model", "use warden's --model"},
	{"--served-model-name", "use `aliases` in the configuration"},
	{"--host --port --uds -asc --api-server-count", "use warden's --listen: the engines' own addresses are private"},
	{"--api-key", "use warden's own keys: only warden talks to the engines"},
	{"--ssl-*", "warden answers the clients, so TLS belongs there"},
	{"--root-path", "warden relies on vLLM's own paths"},
	{"--tensor-parallel-size -tp", "use warden's --tp"},
	{"--data-parallel-* -dp -dpa -dpb -dpe -dph -dpl -dpm -dpn -dpp -dpr", "use warden's --dp: each replica is a vLLM of its own"},
	{"--pipeline-parallel-size -pp", "use warden's --tp: warden gives a replica tp GPUs"},
	{"--device-ids", "use warden's --gpus"},
	{"--headless --nnodes -n --node-rank -r --master-addr --master-port", "warden runs vLLM on one machine"},
	{"--disable-log-stats", "warden reads the engine's metrics, which it empties"},
}

// CheckArgs refuses engine arguments that warden sets itself. vLLM takes
// underscores for dashes and any unambiguous beginning of a flag, so both are
// seen through.
func CheckArgs(args []string) error {
	for _, a := range args {
		name, isFlag := flagName(a)
		if !isFlag {
			continue
		}
		for _, o := range owned {
			for _, f := range strings.Fields(o.flags) {
				if owns(f, name) {
					return fmt.Errorf("%s cannot be passed on to vLLM: %s", a, o.instead)
				}
			}
		}
	}
	return nil
}

// owns: no flag of vLLM is the beginning of one of warden's, so a beginning of
// one is that flag or ambiguous.
func owns(flag, name string) bool {
	if stem, family := strings.CutSuffix(flag, "*"); family {
		return strings.HasPrefix(name, stem)
	}
	return name == flag || len(name) > len("--") && name[:2] == "--" && strings.HasPrefix(flag, name)
}

// flagName is the flag of an argument as vLLM reads it: without "=value", with
// dashes. A negative number is a value.
func flagName(arg string) (string, bool) {
	if len(arg) < 2 || arg[0] != '-' {
		return "", false
	}
	if _, err := strconv.ParseFloat(arg, 64); err == nil {
		return "", false
	}
	name, _, _ := strings.Cut(arg, "=")
	if strings.HasPrefix(name, "--") {
		// --kv-transfer-config.some_key: only the part before the dot is a flag.
		head, tail, dotted := strings.Cut(name, ".")
		name = strings.ReplaceAll(head, "_", "-")
		if dotted {
			name += "." + tail
		}
	}
	return name, true
}

// given reports whether any of the flags stands among args, also with a dotted
// key (--compilation-config.mode) or, for -O, with its value attached (-O3).
func given(args []string, flags ...string) bool {
	for _, a := range args {
		name, isFlag := flagName(a)
		if !isFlag {
			continue
		}
		for _, f := range flags {
			if name == f || strings.HasPrefix(name, f+".") || f == "-O" && strings.HasPrefix(name, "-O") {
				return true
			}
		}
	}
	return false
}

// argument is the value of a flag among args: the last one, as vLLM sees it.
func argument(args []string, flag string) (value string, ok bool) {
	for i, a := range args {
		name, isFlag := flagName(a)
		if !isFlag || name != flag {
			continue
		}
		if _, v, attached := strings.Cut(a, "="); attached {
			value, ok = v, true
		} else if i+1 < len(args) {
			value, ok = args[i+1], true
		}
	}
	return value, ok
}

// Argument looks up a flag among the user's arguments: its last value, "" where
// it stands without one or with a dotted key.
func Argument(args []string, flag string) (value string, found bool) {
	if !given(args, flag) {
		return "", false
	}
	value, _ = argument(args, flag)
	return value, true
}
