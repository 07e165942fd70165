package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lm-warden/warden/supervisor/internal/jsonfile"
)

const memoryFile = "supervisor.json"

// memory is what outlives a run of warden: the generation of each replica, so that a new engine is never taken for
// the one before, how long the last successful start of each model took, for the estimate on the screen, and the GPUs
// that are set aside.
type memory struct {
	path string // empty = nothing is kept

	mu      sync.Mutex
	data    memoryData
	failing bool // the last write failed, and that was told
}

type memoryData struct {
	Generations  map[ReplicaID]uint64 `json:"generations"`
	StartSeconds map[string]float64   `json:"start_seconds"` // by startKey
	BootID       string               `json:"boot_id,omitempty"`
	Aside        map[string]Aside     `json:"set_aside,omitempty"` // by the GPU's UUID, in that boot
}

// loadMemory reads the state directory. A missing file is an empty memory; a damaged one is, too, with an error that
// need not stop anybody.
func loadMemory(stateDir, bootID string) (*memory, error) {
	m := &memory{data: memoryData{
		Generations: map[ReplicaID]uint64{}, StartSeconds: map[string]float64{}, BootID: bootID, Aside: map[string]Aside{},
	}}
	if stateDir == "" {
		return m, nil
	}
	m.path = filepath.Join(stateDir, memoryFile)
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		m.failing = true
		return m, err
	}
	var data memoryData
	if err := jsonfile.Read(m.path, &data); err != nil && !errors.Is(err, os.ErrNotExist) {
		return m, err
	}
	m.take(data)
	return m, nil
}

// take keeps what makes sense: the file may have been edited.
func (m *memory) take(data memoryData) {
	maps.Copy(m.data.Generations, data.Generations)
	for key, seconds := range data.StartSeconds {
		if seconds > 0 && seconds < (24*time.Hour).Seconds() {
			m.data.StartSeconds[key] = seconds
		}
	}
	if data.BootID == m.data.BootID {
		maps.Copy(m.data.Aside, data.Aside)
	}
}

func (m *memory) generation(id ReplicaID) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.data.Generations[id]
}

func (m *memory) setGeneration(id ReplicaID, generation uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data.Generations[id] == generation {
		return nil
	}
	m.data.Generations[id] = generation
	return m.write()
}

func (m *memory) lastStart(key string) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Duration(m.data.StartSeconds[key] * float64(time.Second))
}

func (m *memory) setLastStart(key string, took time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.data.StartSeconds[key] = took.Seconds()
	return m.write()
}

// startKey is what start times depend on, roughly.
func startKey(s Spec) string { return fmt.Sprintf("%s %s tp%d", s.Model, s.Device, max(s.TP, 1)) }

// write saves everything. Of failures in a row it returns the first: a disk that is full stays so for a while, and
// nothing but the next run of warden depends on it. The caller holds the lock.
func (m *memory) write() error {
	if m.path == "" {
		return nil
	}
	err := jsonfile.Write(m.path, m.data)
	told := m.failing
	m.failing = err != nil
	if told {
		return nil
	}
	return err
}
