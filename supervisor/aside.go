package supervisor

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/internal/jsonfile"
)

// Aside is why a GPU must not be used, by the GPU's UUID. It is kept over restarts of warden, until the machine boots
// anew or somebody orders Retry of the replica on it: nothing else tells that the GPU was reset.
type Aside struct {
	Cause string    `json:"cause"`
	Fix   string    `json:"fix,omitempty"`
	At    time.Time `json:"at"`
	// Gone: the GPU does not answer, or its results cannot be trusted. Its engine is killed at once; otherwise it may
	// first finish what it holds.
	Gone bool `json:"gone,omitempty"`
}

// SetAside takes one GPU out of use: its replica is parked, and all others go on. news is false when that was known
// already, and not less bad.
func (s *Supervisor) SetAside(uuid string, a Aside) (news bool) {
	news, err := s.memory.setAside(uuid, a)
	if err != nil {
		s.opts.Log.Warn("not kept for the next run of warden", "what", "GPU set aside", "gpu", uuid, "err", err)
	}
	if !news {
		return false
	}
	select {
	case <-s.running:
	default:
		return true // found by the start
	}
	for _, r := range s.replicas {
		if slices.Contains(r.spec.GPUUUIDs, uuid) {
			if ev, is := r.setAside(); is {
				r.post(context.Background(), ev)
			}
		}
	}
	return true
}

// Asides returns the GPUs that are set aside, by UUID.
func (s *Supervisor) Asides() map[string]Aside {
	s.memory.mu.Lock()
	defer s.memory.mu.Unlock()
	return maps.Clone(s.memory.data.Aside)
}

// setAside says whether the replica has a GPU that is set aside, and why.
func (r *replica) setAside() (ev aside, is bool) {
	a, is := r.memory.aside(r.spec.GPUUUIDs)
	fix := "`warden retry " + string(r.spec.ID) + "` takes it back into use"
	if a.Fix != "" {
		fix = a.Fix + "; then " + fix
	}
	return aside{diagnosis: Diagnosis{Cause: "its GPU is set aside: " + a.Cause, Fix: fix}, gone: a.Gone}, is
}

// takeBack ends the setting aside of the replica's GPUs, by order.
func (r *replica) takeBack() {
	before, err := r.memory.takeBack(r.spec.GPUUUIDs)
	r.keep("GPU taken back", err)
	if len(before) > 0 {
		r.tell(events.KindGPU, "its GPU is used again by order; it was set aside for: "+strings.Join(before, ", "), nil)
	}
}

func (m *memory) aside(uuids []string) (a Aside, is bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uuid := range uuids {
		if one, known := m.data.Aside[uuid]; known && (!is || one.Gone) {
			a, is = one, true
		}
	}
	return a, is
}

func (m *memory) setAside(uuid string, a Aside) (news bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if before, known := m.data.Aside[uuid]; known && (before.Gone || !a.Gone) {
		return false, nil
	}
	m.data.Aside[uuid] = a
	return true, m.write()
}

// takeBack returns the causes for which they were set aside.
func (m *memory) takeBack(uuids []string) (causes []string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, uuid := range uuids {
		if a, known := m.data.Aside[uuid]; known {
			causes = append(causes, a.Cause)
			delete(m.data.Aside, uuid)
		}
	}
	if len(causes) == 0 {
		return nil, nil
	}
	return causes, m.write()
}

// ReadAsides returns what an earlier or running warden with this state directory set aside in the present boot, for
// those who only look.
func ReadAsides(stateDir, bootID string) (map[string]Aside, error) {
	var data memoryData
	err := jsonfile.Read(filepath.Join(stateDir, memoryFile), &data)
	if errors.Is(err, os.ErrNotExist) || err == nil && data.BootID != bootID {
		return nil, nil
	}
	return data.Aside, err
}
