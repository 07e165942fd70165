package tune

import (
	"strconv"
	"strings"
)

// Facts are what the rules look at. The zero value of a field means that it is
// not known.
type Facts struct {
	Version    string // of vLLM, such as "0.32.0+cpu"
	Platform   Platform
	Model      Model
	KVPerToken int // KV bytes of a token from the catalogue, for models whose config.json is not here yet

	WeightsBytes uint64
	GPUMemory    uint64 // of the smallest GPU that a replica of the model gets
	ComputeCap   [2]int
	TP           int
	Replicas     int // of all models on this machine: they share its memory

	// Args looks up the user's own engine arguments.
	Args func(flag string) (value string, given bool)

	MaxNumSeqs int // set by the user or the catalogue; 0 = open
	Offload    Offloading
	Host       Host
}

// Platform is what the engines run on.
type Platform string

// The platforms.
const (
	CUDA      Platform = "cuda"
	CPU       Platform = "cpu"
	Simulated Platform = "simulated"
)

// Host is the machine's memory, in bytes.
type Host struct {
	// Free is what could be taken now: of the machine, or of the control group
	// where that allows less.
	Free uint64
	// Shm is what /dev/shm could still hold; vLLM keeps the tier there.
	Shm uint64
}

// arg is a user's argument, "" when not given or without value.
func (f Facts) arg(flag string) (string, bool) {
	if f.Args == nil {
		return "", false
	}
	return f.Args(flag)
}

// KVBytes is the KV cache of one token of a replica in bytes, with the user's KV
// type; 0 = not known.
func (f Facts) KVBytes() int {
	perToken := f.Model.KVBytes(f.TP)
	if perToken == 0 {
		perToken = f.KVPerToken
	}
	dtype, given := f.arg("--kv-cache-dtype")
	if !given || dtype == "auto" {
		dtype, _ = f.arg("--dtype") // auto is the type of the weights
	}
	scale, ok := kvScale(dtype)
	if !ok {
		return 0
	}
	return int(float64(perToken) * scale)
}

// utilization is the share of a GPU's memory that vLLM takes.
func (f Facts) utilization() float64 {
	if v, ok := f.arg("--gpu-memory-utilization"); ok {
		if share, err := strconv.ParseFloat(v, 64); err == nil && share > 0 && share <= 1 {
			return share
		}
	}
	return engineShare
}

// hybrid names layers without a full KV cache; known is false while nothing says.
func (f Facts) hybrid() (layers string, known bool) {
	if f.Model.Hybrid != "" {
		return f.Model.Hybrid, true
	}
	// The catalogue states the bytes only for models whose layers all keep
	// every token.
	return "", f.Model.Known() || f.KVPerToken > 0
}

// minor is the number of a version's minor release: 32 of 0.32.0; ok is false
// when it cannot be read. vLLM has had no other major version.
func minor(version string) (n int, ok bool) {
	major, rest, found := strings.Cut(version, ".")
	if !found {
		return 0, false
	}
	first, err := strconv.Atoi(major)
	if err != nil {
		return 0, false
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(rest)
	}
	if n, err = strconv.Atoi(rest[:end]); err != nil {
		return 0, false
	}
	return first*1000 + n, true
}
