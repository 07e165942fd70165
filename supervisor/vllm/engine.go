package vllm

import (
	"os"
	"slices"
	"sync"

	"github.com/lm-warden/warden/supervisor"
)

// Options change how engines are started. The zero value works.
type Options struct {
	// Environ is where the short list of inherited variables is taken from;
	// nil = the process's own environment.
	Environ []string
	// CPUKVCache is the KV cache of a replica on the CPU when the user's
	// arguments do not say it, in vLLM's form ("4G"); empty = 4G. vLLM's own
	// default would give every replica 0.92 of the machine's memory.
	CPUKVCache string
	// Settings are arguments that warden has chosen for this model's work beyond
	// those of a Spec (package tune): each a flag and its values. What the user
	// passes too is left to the user, and what the installation refuses is left
	// out of the next start.
	Settings [][]string
}

// Engine starts and reads replicas of one vLLM installation. It implements
// supervisor.Engine and may be used from several goroutines.
type Engine struct {
	install  Install
	environ  []string
	cpuKV    string
	settings [][]string

	mu      sync.Mutex
	refused []string // optional flags that this installation does not know
}

var _ supervisor.Engine = (*Engine)(nil)

// New returns the engine of an installation.
func New(in Install, o Options) *Engine {
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.CPUKVCache == "" {
		o.CPUKVCache = "4G"
	}
	return &Engine{install: in, environ: o.Environ, cpuKV: o.CPUKVCache, settings: o.Settings}
}

// Install is the installation that the engine runs.
func (e *Engine) Install() Install { return e.install }

// Refused lists the flags that warden leaves out because this installation
// refused them.
func (e *Engine) Refused() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.refused)
}

// refuse remembers flags to leave out.
func (e *Engine) refuse(flags []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range flags {
		if !slices.Contains(e.refused, f) {
			e.refused = append(e.refused, f)
		}
	}
}
