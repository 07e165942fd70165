package shim

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/lm-warden/warden/supervisor/internal/jsonfile"
	"github.com/lm-warden/warden/supervisor/shim/proc"
)

// The files in a replica's directory.
const (
	specFile   = "spec.json"
	stateFile  = "state.json"
	lockFile   = "lock"
	socketFile = "shim.sock"
)

// Environment entries that the shim adds to the engine's.
const (
	markKey    = "WARDEN_REPLICA" // a random value per engine start: finds processes that left the group
	runtimeKey = "WARDEN_RUNTIME" // the replica's directory: finds them also when the state file is lost
	// Python's setproctitle writes the title over the environment area unless told not to; the mark must stay readable.
	keepEnviron = "SPT_NOENV=1"
)

// Spec is what one shim is to run: D/spec.json, written by the Launcher, removed by the shim once read because the
// environment may hold secrets.
type Spec struct {
	Replica    string        `json:"replica"`
	Model      string        `json:"model"`
	Generation uint64        `json:"generation"`
	Mark       string        `json:"mark"` // random, new for each start
	Argv       []string      `json:"argv"`
	Env        []string      `json:"env"` // the engine's whole environment, without the shim's additions
	WorkDir    string        `json:"work_dir,omitempty"`
	CPUs       []int         `json:"cpus,omitempty"`
	Address    string        `json:"address"`
	GPUUUIDs   []string      `json:"gpu_uuids,omitempty"`
	LogDir     string        `json:"log_dir"`
	LockDir    string        `json:"lock_dir"`                 // one lock file per GPU UUID
	OrphanStop time.Duration `json:"orphan_stop_ns,omitempty"` // stop the engine when no client was there this long; 0 = never
}

// State is what a shim and its engine are: D/state.json, replaced atomically at every change. It stays after the end.
type State struct {
	Replica    string    `json:"replica"`
	Model      string    `json:"model"`
	Generation uint64    `json:"generation"`
	Mark       string    `json:"mark"`
	BootID     string    `json:"boot_id"`
	ShimPID    int       `json:"shim_pid"`
	ShimStart  uint64    `json:"shim_start"`
	PID        int       `json:"pid"` // engine's main process, group and session; 0 = not started yet
	Start      uint64    `json:"start"`
	StartedAt  time.Time `json:"started_at"`
	ArgvHash   string    `json:"argv_hash"`
	Address    string    `json:"address"`
	GPUUUIDs   []string  `json:"gpu_uuids,omitempty"`
	Exit       *Exit     `json:"exit,omitempty"`       // set when the main process has ended
	Gone       bool      `json:"gone,omitempty"`       // no process of the tree is left
	LostLines  uint64    `json:"lost_lines,omitempty"` // not logged because the disk was slow or full
}

// Exit is how the main process ended.
type Exit struct {
	Code   int            `json:"code"`
	Signal syscall.Signal `json:"signal,omitempty"`
	At     time.Time      `json:"at"`
}

// tree says how the engine's processes are recognised from outside the shim.
func (s State) tree() proc.Tree {
	return proc.Tree{Mark: markKey + "=" + s.Mark, Main: s.PID, Start: s.Start}
}

// runtimeMark is the mark of every process that was started in a replica's directory, in any generation.
func runtimeMark(dir string) string { return runtimeKey + "=" + filepath.Clean(dir) }

// ArgvHash identifies a command line without showing it.
func ArgvHash(argv []string) string {
	h := sha256.New()
	for _, a := range argv {
		h.Write([]byte(a))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// WriteSpec puts the spec into dir, readable by this user only.
func WriteSpec(dir string, s Spec) error { return jsonfile.Write(filepath.Join(dir, specFile), s) }

// takeSpec reads the spec of dir and removes it.
func takeSpec(dir string) (Spec, error) {
	var s Spec
	path := filepath.Join(dir, specFile)
	if err := jsonfile.Read(path, &s); err != nil {
		return s, err
	}
	if err := os.Remove(path); err != nil {
		return s, err
	}
	if len(s.Argv) == 0 || s.Mark == "" || s.LogDir == "" {
		return s, fmt.Errorf("%s: argv, mark and log_dir must be set", path)
	}
	return s, nil
}

// ReadState reads the state in dir. The error wraps os.ErrNotExist when there is none.
func ReadState(dir string) (State, error) {
	var s State
	err := jsonfile.Read(filepath.Join(dir, stateFile), &s)
	return s, err
}

func writeState(dir string, s State) error { return jsonfile.Write(filepath.Join(dir, stateFile), s) }
