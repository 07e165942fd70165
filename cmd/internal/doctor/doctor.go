// Package doctor judges, before anything starts, whether a machine can run
// what a configuration asks for.
//
// Reading order: Facts (what is known of the machine), checks.go and gpuhealth.go
// (each check is a function from facts to findings; wayin.go has those of keys and
// certificate with the look at them, spool.go that of large bodies), machine.go (the small looks at the
// system that make facts; those that need warden's other packages are made by
// the command), print.go.
//
// A check fails only where a start would fail; what may hurt later is a
// warning. Every finding but the good ones says what to do.
package doctor

import (
	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/vllm"
)

// Mark is how a finding is.
type Mark string

// The marks.
const (
	OK   Mark = "ok"
	Warn Mark = "warn"
	Fail Mark = "fail"
)

// Finding is one line of the result.
type Finding struct {
	Check string `json:"check"`
	Mark  Mark   `json:"mark"`
	Fact  string `json:"fact"`
	Fix   string `json:"fix,omitempty"`
}

// Facts are what is known of a machine and of a configuration. The zero value
// of a part means that nothing stands in the way there, unless its comment says
// otherwise.
type Facts struct {
	Config    Config
	GPU       GPU
	VLLM      VLLM
	Engines   Engines
	Models    []Model
	Port      Port
	WayIn     WayIn
	Shm       Filesystem // /dev/shm
	OpenFiles Limit
	Memory    Memory
	Dirs      []Dir
	Spool     Spool
	Socket    Socket
	Daemon    Daemon
	Left      []Left
	Container Container
	Kernel    Kernel
}

// Config is the configuration and where it came from.
type Config struct {
	Err    error
	Fix    string
	Files  []string // that were read
	Set    int      // keys that differ from their default
	Device string   // cuda, cpu, simulated
}

// GPU is what NVML says. It was not asked when the device is the CPU.
type GPU struct {
	Err       error
	Inventory gpu.Inventory // with the memory of our own engines counted as free
	PlanErr   error         // why the wanted replicas have no place
	PlanFix   string
	Groups    []gpu.Group                 // of the wanted replicas
	Aside     map[string]supervisor.Aside // GPUs that warden does not use, by UUID
}

// VLLM is the installation that would be used.
type VLLM struct {
	Err     error
	Fix     string
	Install vllm.Install
}

// Engines are the models with the settings that their engines would get; none
// where there is no place or no vLLM for them.
type Engines struct {
	Models []plan.Model
	Err    error // why a start would be refused
}

// Model is one model to serve.
type Model struct {
	Alias   string
	Bytes   uint64 // of its weights; 0 = unknown
	TP      int
	BuiltIn bool // warden writes it itself
	Weights vllm.Weights
	Free    uint64 // bytes on the disk that holds Weights.Dir
	FreeErr error
}

// Port is the address of the API.
type Port struct {
	Address string
	Err     error  // why it cannot be bound
	Owner   string // who listens there; "" = unknown
}

// Filesystem is the size of one, in bytes.
type Filesystem struct {
	Size uint64
	Err  error
}

// Limit is a limit on this process. The soft one is raised to the hard one.
type Limit struct {
	Hard uint64
	Err  error
}

// Memory is the machine's, in bytes.
type Memory struct {
	Available uint64 // without swapping; 0 = unknown
	Limit     uint64 // of the control group; 0 = none
}

// Dir is a directory that warden writes to.
type Dir struct {
	Role, Path string
	Err        error
	Fix        string
}

// Socket is the longest path of a unix socket.
type Socket struct {
	Path string
	Max  int // bytes that a path may have
}

// Daemon is a warden of this name that runs already. PID 0 = none, or unknown of
// one that is silent.
type Daemon struct {
	PID     int
	Version string
	Access  string               // why keys or certificate as they are on disk do not count there; "" = they do
	Silent  *control.SilentError // nil = it answers, or there is none
}

// Left is an engine that runs without a warden.
type Left struct {
	Replica, Model string
	PID            int
}

// Container is the one that this process is in, if any.
type Container struct {
	Kind string // docker, podman, ...; "" = none
	Init string // the name of process 1 there
}

// Examine applies every check.
func Examine(f Facts) []Finding {
	checks := []func(Facts) []Finding{
		configuration, daemon, leftovers, driver, gpus, setAside, gpuHealth, xids, topology, engine, weights, settings, port, wayIn,
		sharedMemory, openFiles, memory, directories, spool, socketPath, container,
	}
	var all []Finding
	for _, check := range checks {
		all = append(all, check(f)...)
	}
	return all
}

// Failed says whether a start would fail.
func Failed(findings []Finding) bool {
	for _, f := range findings {
		if f.Mark == Fail {
			return true
		}
	}
	return false
}
