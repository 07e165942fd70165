// Package configs holds what a user can set, where it came from, and the model
// catalogue.
//
// Reading order: config.go (the shape and its defaults), load.go (files,
// environment and flags become one Config), keys.go (unknown keys are errors
// that name the line), validate.go (what cannot work is refused before anything
// starts), catalogue.go (short names of models).
package configs

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Policies a model can be placed with. "off" is accepted wherever a policy is
// read and means PolicyBalance.
const (
	PolicyBalance   = "balance"
	PolicyAffinity  = "affinity"
	PolicyAdmission = "admission"
)

// What is done with system messages inside a history.
const (
	SystemTurnsAuto       = "auto"
	SystemTurnsKeep       = "keep"
	SystemTurnsFold       = "fold"
	SystemTurnsRejectOnce = "reject_once"
)

// Devices an engine can run on.
const (
	DeviceCUDA      = "cuda"
	DeviceCPU       = "cpu"
	DeviceSimulated = "simulated"
)

// Config is everything a user can set in a file, the environment or a flag.
type Config struct {
	// Name tells apart several wardens of one user: it is part of the runtime
	// and state directories.
	Name string `mapstructure:"name"`
	// Listen is the address of the OpenAI- and Anthropic-compatible API.
	Listen string `mapstructure:"listen"`
	// Insecure allows a non-loopback Listen without API keys.
	Insecure bool `mapstructure:"insecure"`
	// APIKeysFile names a file (mode 0600) of accepted API keys; `warden keys`
	// writes it. A line is a key or "sha256:<hex>" of one, then any of
	// name=NAME, scope=infer,read,admin and max_in_flight=N. A changed file
	// counts within seconds. Empty: no keys are asked for.
	APIKeysFile string `mapstructure:"api_keys_file"`
	// TLSCert names a PEM file of the certificate chain that the API is served
	// with, TLSKey that of its private key. Renewed files count within seconds.
	// Empty: the API is served without TLS.
	TLSCert string `mapstructure:"tls_cert"`
	// TLSKey belongs to TLSCert; others may not read it.
	TLSKey string `mapstructure:"tls_key"`
	// AllowedHosts are further Host header values that are answered, besides
	// loopback names and the listening address.
	AllowedHosts []string `mapstructure:"allowed_hosts"`
	// AllowedOrigins are browser origins that may call the API. None by default.
	AllowedOrigins []string `mapstructure:"allowed_origins"`
	// SessionHeaders are further request headers that name a session.
	SessionHeaders []string `mapstructure:"session_headers"`
	// StrictModelNames answers 404 for unknown model names even when only one
	// model is served.
	StrictModelNames bool `mapstructure:"strict_model_names"`
	// AccessLog names a file that gets one JSON line for each request: ids,
	// sizes, times and placement, never content (configs/access-log.schema.json
	// says what). It is its owner's alone, and rotated: 100 MB a file, four older
	// ones are kept, not compressed; logrotate may do that. Empty: none is written.
	AccessLog string `mapstructure:"access_log"`
	// SpoolDir is where request bodies above SpoolAboveMiB lie, in files without a
	// name that go with their request. Where it is a tmpfs they are memory after
	// all. Empty: $TMPDIR, else /tmp.
	SpoolDir string `mapstructure:"spool_dir"`
	// SpoolAboveMiB is the size in MiB above which a request body lies in such a
	// file instead of memory. The largest body there may be has 34 MiB.
	SpoolAboveMiB int `mapstructure:"spool_above_mib" min:"1" max:"4096"`
	// Tracing says where spans go.
	Tracing Tracing `mapstructure:"tracing"`
	// Drain is how long held requests may take to finish when warden stops.
	Drain time.Duration `mapstructure:"drain"`
	// MaxWait is how long a request may wait for a replica, at most 240 s:
	// agents give up after 300 s without a byte.
	MaxWait time.Duration `mapstructure:"max_wait"`
	// SessionTTL is how long a session without requests keeps its home.
	SessionTTL time.Duration `mapstructure:"session_ttl"`
	// MaxSessions bounds the session table of one model.
	MaxSessions int `mapstructure:"max_sessions" min:"1"`
	// Engine says how engines are found and started.
	Engine Engine `mapstructure:"engine"`
	// Models are the models to serve.
	Models []Model `mapstructure:"models"`
	// Catalogue adds short names to the built-in ones, or replaces them.
	Catalogue []Entry `mapstructure:"catalogue"`
}

// Tracing says where spans go. The standard OTEL_ variables count, too.
type Tracing struct {
	// Endpoint is the address of an OpenTelemetry collector that takes OTLP over
	// HTTP, such as http://127.0.0.1:4318; it wins over
	// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT and OTEL_EXPORTER_OTLP_ENDPOINT. Empty
	// everywhere: no spans are made.
	Endpoint string `mapstructure:"endpoint" pattern:"^(https?://[^@]+)?$"`
}

// Engine says how engines are found and started.
type Engine struct {
	// VLLM is the path of the vllm program. Empty: it is searched for.
	VLLM string `mapstructure:"vllm"`
	// Device is cuda, cpu or simulated.
	Device string `mapstructure:"device" oneof:"cuda cpu simulated"`
	// Listen is unix (a socket in a 0700 directory) or tcp (a loopback port).
	Listen string `mapstructure:"listen" oneof:"unix tcp"`
	// StartTimeout ends a start that shows no progress in its log for so long.
	StartTimeout time.Duration `mapstructure:"start_timeout"`
	// ParallelStart starts all replicas of a model at once instead of letting
	// the first fill the compile and download caches.
	ParallelStart bool `mapstructure:"parallel_start"`
}

// Model is one served model.
type Model struct {
	// Alias is the short name clients use. A name with "/" is a repository.
	Alias string `mapstructure:"alias"`
	// Repo is the Hugging Face repository or a directory; default: the
	// catalogue's entry for Alias.
	Repo string `mapstructure:"repo"`
	// DP is the number of replicas; 0: as many as the GPUs allow.
	DP int `mapstructure:"dp" min:"0"`
	// TP is the number of GPUs of one replica; 0 means 1.
	TP int `mapstructure:"tp" min:"0"`
	// GPUs limits the model to these GPU indices (PCI bus order).
	GPUs []int `mapstructure:"gpus"`
	// Affinity is affinity (on), admission or balance (off).
	Affinity string `mapstructure:"affinity" oneof:"affinity admission balance on off"`
	// SpillLimit is "auto" (max_num_seqs / 4) or a number of requests.
	SpillLimit string `mapstructure:"spill_limit" type:"string,integer" pattern:"^(auto|[1-9][0-9]*)$" min:"1"`
	// Admission tunes that policy.
	Admission Admission `mapstructure:"admission"`
	// MaxNumSeqs is the engine's limit of concurrent sequences; 0: as many as the
	// KV cache holds typical sessions, 32 to 256.
	MaxNumSeqs int `mapstructure:"max_num_seqs" min:"0"`
	// KVOffload is the KV cache's second tier in host memory: auto (sized from
	// free memory where vLLM and the model allow it), off, or GiB per replica.
	KVOffload string `mapstructure:"kv_offload" type:"string,number" pattern:"^(auto|off|[0-9]+([.][0-9]+)?)$" min:"0"`
	// ExactStreams never asks the engine for the usage figures that a client
	// did not ask for: its streams pass byte for byte, unmeasured.
	ExactStreams bool `mapstructure:"exact_streams"`
	// ExactErrors passes the engine's refusal of a too long prompt on in the
	// engine's own words. By default it gets the words (/v1/messages) or the
	// error code (OpenAI's paths) that make clients compact their history.
	ExactErrors bool `mapstructure:"exact_errors"`
	// ExactUsage passes the token counts of /v1/messages answers on as the
	// engine states them. By default an input_tokens of 0 beside cached tokens
	// becomes 1 and they one less: Claude Code takes 0 for not stated, counts the
	// cached tokens twice and compacts too early.
	ExactUsage bool `mapstructure:"exact_usage"`
	// SystemTurns says what becomes of system messages inside a /v1/messages
	// history, which engines hoist to the front and then read the whole history
	// anew: fold makes them user messages, reject_once refuses the first such
	// request so that Claude Code sends them as user messages itself, keep
	// changes nothing, auto folds those of Claude Code only.
	SystemTurns string `mapstructure:"system_turns" oneof:"auto keep fold reject_once"`
	// Args go to vLLM unchanged, after warden's own.
	Args []string `mapstructure:"args"`
	// Env are NAME=value pairs added to the engine's environment.
	Env []string `mapstructure:"env"`
}

// Default is the configuration of a machine where nothing was set.
func Default() Config {
	return Config{
		Name: "default", Listen: "127.0.0.1:8000",
		Drain: 30 * time.Second, MaxWait: 240 * time.Second,
		SessionTTL: time.Hour, MaxSessions: 10000, SpoolAboveMiB: 16,
		Engine: Engine{Device: DeviceCUDA, Listen: "unix", StartTimeout: 30 * time.Minute},
	}
}

// DefaultMaxNumSeqs is the engine's limit of concurrent sequences where neither
// a model sets its own nor the size of the KV cache is known. vLLM's own default
// (256 and more) would make a spill limit of a quarter meaningless on GPUs whose
// KV cache holds a few sessions.
const DefaultMaxNumSeqs = 32

// WithDefaults fills in what a model leaves open, from the catalogue.
func (m Model) WithDefaults(catalogue []Entry) (Model, error) {
	entry, err := Lookup(catalogue, m.Alias)
	switch {
	case m.Repo != "":
		if m.Alias == "" {
			m.Alias = aliasOf(m.Repo)
		}
	case err != nil:
		return m, err
	default:
		m.Repo = entry.Repo
	}
	if entry.Repo == m.Repo {
		m.Alias = entry.Alias
		m.Args = append(append([]string(nil), entry.Args...), m.Args...)
		if m.MaxNumSeqs == 0 {
			m.MaxNumSeqs = entry.MaxNumSeqs
		}
	}
	if m.TP == 0 {
		m.TP = 1
	}
	if m.SpillLimit == "" {
		m.SpillLimit = "auto"
	}
	if m.KVOffload == "" {
		m.KVOffload = "auto"
	}
	if m.SystemTurns == "" {
		m.SystemTurns = SystemTurnsAuto
	}
	m.Affinity, err = ParsePolicy(m.Affinity)
	return m, err
}

// ParsePolicy turns what a user writes for "affinity" into a policy name:
// empty and "on" mean affinity, "off" means balance.
func ParsePolicy(s string) (string, error) {
	switch strings.ToLower(s) {
	case "", "on", "true", PolicyAffinity:
		return PolicyAffinity, nil
	case "off", "false", PolicyBalance:
		return PolicyBalance, nil
	case PolicyAdmission:
		return PolicyAdmission, nil
	}
	return "", fmt.Errorf("affinity %q is not one of affinity, admission, balance (on and off are accepted too)", s)
}

// Spill returns the spill limit in requests; 0 means auto.
func (m Model) Spill() (int, error) {
	if m.SpillLimit == "" || m.SpillLimit == "auto" {
		return 0, nil
	}
	n, err := strconv.Atoi(m.SpillLimit)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("spill_limit %q is neither auto nor a number of requests of at least 1", m.SpillLimit)
	}
	if err := CheckSpill(n); err != nil {
		return 0, err
	}
	return n, nil
}

// MaxSpill is the largest spill limit. No replica ever holds so many requests, so
// it means that turns never spill; above it a key was pressed too long.
const MaxSpill = 1_000_000

// CheckSpill says whether a spill limit can be meant; 0 is auto.
func CheckSpill(limit int) error {
	if limit < 0 {
		return fmt.Errorf("spill limit %d must not be negative", limit)
	}
	if limit > MaxSpill {
		return fmt.Errorf("spill limit %d is above %d, which never spills", limit, MaxSpill)
	}
	return nil
}

// mostOffload bounds the tier of one replica in GiB: above it a unit was
// mistaken.
const mostOffload = 16 << 10

// Offload returns what kv_offload asks for: GiB per replica, 0 with auto, and
// whether it is off.
func (m Model) Offload() (gib float64, off bool, err error) {
	switch strings.ToLower(m.KVOffload) {
	case "", "auto":
		return 0, false, nil
	case "off", "false", "0":
		return 0, true, nil
	}
	gib, err = strconv.ParseFloat(m.KVOffload, 64)
	if err != nil || !(gib > 0 && gib <= mostOffload) {
		return 0, false, fmt.Errorf("kv_offload %q is neither auto, off nor a number of GiB per replica", m.KVOffload)
	}
	return gib, false, nil
}
