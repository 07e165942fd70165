package configs

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Validate reports everything that cannot work, joined; nil when nothing.
func (c Config) Validate() error {
	var errs []error
	add := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := CheckName(c.Name); err != nil {
		add("name %w", err)
	}
	if err := c.validateListen(); err != nil {
		errs = append(errs, err)
	}
	if c.MaxWait < time.Second || c.MaxWait > 240*time.Second {
		add("max_wait %v: must lie between 1s and 240s (agents give up after 300 s without a byte)", c.MaxWait)
	}
	if err := c.Tracing.validate(); err != nil {
		errs = append(errs, err)
	}
	if c.AccessLog == "-" {
		errs = append(errs, errors.New("access_log -: must name a file; standard output is the dashboard's"))
	}
	if c.SpoolAboveMiB < 1 || c.SpoolAboveMiB > maxSpool {
		add("spool_above_mib %d: must lie between 1 and %d; what is above the largest body, 34, never makes a file", c.SpoolAboveMiB, maxSpool)
	}
	if c.Drain < 0 {
		add("drain %v: must not be negative", c.Drain)
	}
	if c.Engine.StartTimeout < 0 {
		add("engine start_timeout %v: must not be negative, 0 is the default of 30m", c.Engine.StartTimeout)
	}
	if c.SessionTTL < time.Second {
		add("session_ttl %v: must be at least 1s", c.SessionTTL)
	}
	if c.MaxSessions < 1 {
		add("max_sessions %d: must be at least 1", c.MaxSessions)
	}
	if !slices.Contains([]string{DeviceCUDA, DeviceCPU, DeviceSimulated}, c.Engine.Device) {
		add("engine device %q: must be cuda, cpu or simulated", c.Engine.Device)
	}
	if c.Engine.Listen != "unix" && c.Engine.Listen != "tcp" {
		add("engine listen %q: must be unix or tcp", c.Engine.Listen)
	}
	errs = append(errs, c.validateModels()...)
	return errors.Join(errs...)
}

// maxSpool is far above any body, in MiB: more is a unit mistaken.
const maxSpool = 4096

// CheckName says whether a warden can be called this.
func CheckName(name string) error {
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == '/' || r == 0x7f }) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("%q: use letters, digits and dashes, it becomes a directory", name)
	}
	return nil
}

func (t Tracing) validate() error {
	u, err := url.Parse(t.Endpoint)
	if t.Endpoint == "" || err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil {
		return nil
	}
	if err == nil && u.User != nil { // the configuration is shown to who asks for it
		return errors.New("tracing endpoint: credentials belong into the variable OTEL_EXPORTER_OTLP_HEADERS, not into the address")
	}
	return fmt.Errorf("tracing endpoint %q: must be the address of a collector, such as http://127.0.0.1:4318", t.Endpoint)
}

func (c Config) validateListen() error {
	host, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("listen %q: must be host:port, such as 127.0.0.1:8000", c.Listen)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("listen %q: port %q is not a number from 0 to 65535", c.Listen, port)
	}
	if (c.TLSCert == "") != (c.TLSKey == "") {
		return errors.New("tls_cert and tls_key: one is of no use without the other")
	}
	if c.APIKeysFile == "" && !c.Insecure && !IsLoopback(host) {
		return &FixableError{
			What: fmt.Sprintf("listen %s is reachable from other machines and no API keys are set", c.Listen),
			Fix:  "`--api-keys-file FILE` (`warden keys add NAME` writes it), `--listen 127.0.0.1:8000`, or `--insecure` if that is wanted",
		}
	}
	return nil
}

// URL is where clients reach a listener at an address.
func (c Config) URL(address string) string {
	if c.TLSCert != "" {
		return "https://" + address
	}
	return "http://" + address
}

// FixableError is a configuration that cannot work and the way out.
type FixableError struct{ What, Fix string }

func (e *FixableError) Error() string { return e.What }

// Hint is the way out.
func (e *FixableError) Hint() string { return e.Fix }

// IsLoopback says whether host names this machine only.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil && ip.IsLoopback()
}

func (c Config) validateModels() []error {
	var errs []error
	catalogue := Merge(Builtin(), c.Catalogue)
	seen := map[string]int{}
	owner := map[int]string{}
	for i, m := range c.Models {
		filled, err := m.WithDefaults(catalogue)
		if err != nil {
			errs = append(errs, fmt.Errorf("models[%d]: %w", i, err))
			continue
		}
		errs = append(errs, filled.validate(i)...)
		if first, dup := seen[filled.Alias]; dup {
			errs = append(errs, fmt.Errorf("models[%d]: alias %q is already models[%d]; use dp for more replicas", i, filled.Alias, first))
		}
		seen[filled.Alias] = i
		for _, gpu := range m.GPUs {
			if other, taken := owner[gpu]; taken {
				errs = append(errs, fmt.Errorf("models[%d]: GPU %d is already given to %s", i, gpu, other))
			}
			owner[gpu] = filled.Alias
		}
	}
	return errs
}

func (m Model) validate(i int) []error {
	var errs []error
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("models[%d] (%s): "+format, append([]any{i, m.Alias}, args...)...))
	}
	if m.DP < 0 {
		add("dp %d: must be 0 (as many as fit) or more", m.DP)
	}
	if m.TP < 1 {
		add("tp %d: must be at least 1", m.TP)
	}
	if m.MaxNumSeqs < 0 {
		add("max_num_seqs %d: must be at least 1, or 0 for automatic", m.MaxNumSeqs)
	}
	if _, err := m.Spill(); err != nil {
		add("%w", err)
	}
	if _, _, err := m.Offload(); err != nil {
		add("%w", err)
	}
	if err := m.Admission.validate(); err != nil {
		add("%w", err)
	}
	if turns := []string{SystemTurnsAuto, SystemTurnsKeep, SystemTurnsFold, SystemTurnsRejectOnce}; !slices.Contains(turns, m.SystemTurns) {
		add("system_turns %q: must be one of %s", m.SystemTurns, strings.Join(turns, ", "))
	}
	for _, g := range m.GPUs {
		if g < 0 {
			add("GPU index %d: must not be negative", g)
		}
	}
	for _, e := range m.Env {
		if name, _, ok := strings.Cut(e, "="); !ok || name == "" {
			add("env %q: must be NAME=value", e)
		}
	}
	return errs
}
