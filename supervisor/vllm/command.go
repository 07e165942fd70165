package vllm

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lm-warden/warden/supervisor"
)

// quietPaths are asked every second by the supervisor; their access log lines
// would bury the others.
const quietPaths = "/health,/metrics,/version,/v1/models"

// option is one flag that warden adds, with its values.
type option struct {
	flag   string
	values []string
}

// Command returns the command line and the environment of one replica.
func (e *Engine) Command(s supervisor.Spec) (supervisor.Command, error) {
	if len(e.install.Argv) == 0 {
		return supervisor.Command{}, errors.New("no vLLM to start: the installation has no command")
	}
	if s.Repo == "" || strings.HasPrefix(s.Repo, "-") {
		return supervisor.Command{}, fmt.Errorf("replica %s: %q is no model", s.ID, s.Repo)
	}
	if err := CheckArgs(s.Args); err != nil {
		return supervisor.Command{}, fmt.Errorf("replica %s: %w", s.ID, err)
	}
	options, err := e.options(s)
	if err != nil {
		return supervisor.Command{}, fmt.Errorf("replica %s: %w", s.ID, err)
	}
	argv := append(slices.Clone(e.install.Argv), "serve", s.Repo)
	refused := e.Refused()
	for _, o := range options {
		if !slices.Contains(refused, o.flag) {
			argv = append(append(argv, o.flag), o.values...)
		}
	}
	argv = append(argv, s.Args...)
	return supervisor.Command{Argv: argv, Env: e.environment(s)}, nil
}

// options are warden's own arguments. The user's follow them, and the last one
// of a flag counts.
func (e *Engine) options(s supervisor.Spec) ([]option, error) {
	listen, err := listenOptions(s.Address)
	if err != nil {
		return nil, err
	}
	names := s.ServedNames
	if len(names) == 0 {
		names = []string{s.Model}
	}
	for _, n := range names {
		if n == "" || strings.HasPrefix(n, "-") {
			return nil, fmt.Errorf("%q cannot be a served model name", n)
		}
	}
	out := append([]option{{flag: "--served-model-name", values: names}}, listen...)
	out = append(out, option{flag: "--tensor-parallel-size", values: []string{strconv.Itoa(max(1, s.TP))}})
	if s.MaxNumSeqs > 0 && !given(s.Args, "--max-num-seqs") {
		out = append(out, option{flag: "--max-num-seqs", values: []string{strconv.Itoa(s.MaxNumSeqs)}})
	}
	if !given(s.Args, "--max-model-len") {
		// Shrinks the context to what the KV cache holds, where a model's own
		// maximum would end the start.
		out = append(out, option{flag: "--max-model-len", values: []string{"auto"}})
	}
	out = append(out, option{flag: "--enable-prompt-tokens-details"})
	if !given(s.Args, "--disable-access-log-for-endpoints", "--disable-uvicorn-access-log") {
		out = append(out, option{flag: "--disable-access-log-for-endpoints", values: []string{quietPaths}})
	}
	for _, setting := range e.settings {
		if !given(s.Args, setting[0]) {
			out = append(out, option{flag: setting[0], values: setting[1:]})
		}
	}
	if s.Device == supervisor.DeviceCPU {
		out = append(out, e.cpuOptions(s)...)
	}
	return out, nil
}

// cpuOptions: compiling takes minutes and a C++ compiler on the CPU and gains
// little; the KV cache has to be bounded (see Options.CPUKVCache).
func (e *Engine) cpuOptions(s supervisor.Spec) []option {
	var out []option
	if !given(s.Args, "--enforce-eager", "--no-enforce-eager", "--optimization-level", "-O", "--compilation-config", "-cc") {
		out = append(out, option{flag: "--enforce-eager"})
	}
	if !given(s.Args, "--kv-cache-memory-bytes", "--gpu-memory-utilization", "--device-memory-utilization") &&
		lookup(s.Env, "VLLM_CPU_KVCACHE_SPACE") == "" {
		out = append(out, option{flag: "--kv-cache-memory-bytes", values: []string{e.cpuKV}})
	}
	return out
}

// listenOptions turns an address into vLLM's flags for it.
func listenOptions(address string) ([]option, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		// sun_path holds 108 bytes with its final zero.
		if path == "" || path[0] != '/' || len(path) > 107 {
			return nil, fmt.Errorf("%q cannot be a unix socket: an absolute path of at most 107 bytes is needed", address)
		}
		return []option{{flag: "--uds", values: []string{path}}}, nil
	}
	u, err := url.Parse(address)
	if err == nil && u.Scheme == "http" && u.Path == "" {
		if host, port, err := net.SplitHostPort(u.Host); err == nil && host != "" && port != "" {
			return []option{{flag: "--host", values: []string{host}}, {flag: "--port", values: []string{port}}}, nil
		}
	}
	return nil, fmt.Errorf("%q is not an address for an engine: unix:/path or http://host:port is needed", address)
}

// optional reports whether warden can do without a flag: Command leaves it out
// once it was refused.
func (e *Engine) optional(flag string) bool {
	if flag == "--enable-prompt-tokens-details" || flag == "--disable-access-log-for-endpoints" {
		return true
	}
	return slices.ContainsFunc(e.settings, func(s []string) bool { return s[0] == flag })
}
