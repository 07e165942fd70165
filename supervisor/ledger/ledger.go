package ledger

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/internal/jsonfile"
)

// fileName is in the state directory.
const fileName = "supervisor.json"

// Ledger is what one running warden notes for the next. It may be used from several goroutines.
type Ledger struct {
	path string // empty = nothing is kept

	mu      sync.Mutex
	data    contents
	failing bool // the last write failed, and that was told
}

// contents is the file.
type contents struct {
	Generations  map[supervisor.ReplicaID]uint64 `json:"generations"`
	StartSeconds map[string]float64              `json:"start_seconds"` // by startKey
	BootID       string                          `json:"boot_id,omitempty"`
	Aside        map[string]supervisor.Aside     `json:"set_aside,omitempty"` // by the GPU's UUID, in that boot
}

// Open reads the state directory; an empty one keeps nothing. bootID names the present boot of the machine. A missing
// file is an empty ledger; a damaged one is, too, with an error that need not stop anybody.
func Open(stateDir, bootID string) (*Ledger, error) {
	l := &Ledger{data: contents{
		Generations:  map[supervisor.ReplicaID]uint64{},
		StartSeconds: map[string]float64{},
		BootID:       bootID,
		Aside:        map[string]supervisor.Aside{},
	}}
	if stateDir == "" {
		return l, nil
	}
	l.path = filepath.Join(stateDir, fileName)
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		l.failing = true
		return l, err
	}
	var data contents
	if err := jsonfile.Read(l.path, &data); err != nil && !errors.Is(err, os.ErrNotExist) {
		return l, err
	}
	l.take(data)
	return l, nil
}

// take keeps what makes sense: the file may have been edited.
func (l *Ledger) take(data contents) {
	maps.Copy(l.data.Generations, data.Generations)
	for key, seconds := range data.StartSeconds {
		if seconds > 0 && seconds < (24*time.Hour).Seconds() {
			l.data.StartSeconds[key] = seconds
		}
	}
	if data.BootID == l.data.BootID {
		maps.Copy(l.data.Aside, data.Aside)
	}
}

// Generation is that of the replica's last engine; 0 = none is known.
func (l *Ledger) Generation(id supervisor.ReplicaID) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.Generations[id]
}

// SetGeneration keeps it.
func (l *Ledger) SetGeneration(id supervisor.ReplicaID, generation uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.data.Generations[id] == generation {
		return nil
	}
	l.data.Generations[id] = generation
	return l.write()
}

// LastStart is how long the last successful start of such a replica took; 0 = unknown.
func (l *Ledger) LastStart(s supervisor.Spec) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.data.StartSeconds[startKey(s)] * float64(time.Second))
}

// SetLastStart keeps it.
func (l *Ledger) SetLastStart(s supervisor.Spec, took time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data.StartSeconds[startKey(s)] = took.Seconds()
	return l.write()
}

// startKey is what start times depend on, roughly.
func startKey(s supervisor.Spec) string {
	return fmt.Sprintf("%s %s tp%d", s.Model, s.Device, max(s.TP, 1))
}

// write saves everything. Of failures in a row it returns the first: a disk that is full stays so for a while, and
// nothing but the next run of warden depends on it. The caller holds the lock.
func (l *Ledger) write() error {
	if l.path == "" {
		return nil
	}
	err := jsonfile.Write(l.path, l.data)
	told := l.failing
	l.failing = err != nil
	if told {
		return nil
	}
	return err
}
