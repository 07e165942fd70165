package ledger

import (
	"errors"
	"maps"
	"os"
	"path/filepath"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/internal/jsonfile"
)

// Aside says whether one of the GPUs is set aside, and why; of several the worst.
func (l *Ledger) Aside(uuids []string) (a supervisor.Aside, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uuid := range uuids {
		if one, known := l.data.Aside[uuid]; known && (!is || one.Gone) {
			a, is = one, true
		}
	}
	return a, is
}

// SetAside keeps that a GPU is set aside. news is false when that was known already, and not less bad.
func (l *Ledger) SetAside(uuid string, a supervisor.Aside) (news bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, known := l.data.Aside[uuid]; known && (before.Gone || !a.Gone) {
		return false, nil
	}
	l.data.Aside[uuid] = a
	return true, l.write()
}

// TakeBack ends the setting aside of the GPUs and returns the causes there were.
func (l *Ledger) TakeBack(uuids []string) (causes []string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, uuid := range uuids {
		if a, known := l.data.Aside[uuid]; known {
			causes = append(causes, a.Cause)
			delete(l.data.Aside, uuid)
		}
	}
	if len(causes) == 0 {
		return nil, nil
	}
	return causes, l.write()
}

// Asides returns the GPUs that are set aside, by UUID.
func (l *Ledger) Asides() map[string]supervisor.Aside {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.data.Aside)
}

// ReadAsides returns what an earlier or running warden with this state directory set aside in the present boot, for
// those who only look.
func ReadAsides(stateDir, bootID string) (map[string]supervisor.Aside, error) {
	var data contents
	err := jsonfile.Read(filepath.Join(stateDir, fileName), &data)
	if errors.Is(err, os.ErrNotExist) || err == nil && data.BootID != bootID {
		return nil, nil
	}
	return data.Aside, err
}
