package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/lm-warden/warden/cmd/internal/paths"
	"github.com/lm-warden/warden/router"
)

// Where conversations live is written to a file every few seconds, so that a
// warden that takes over running engines sends each turn to the cache that
// holds it. Losing the file costs cached prefixes, nothing else.

const sessionsEach = 2 * time.Second

func (d *Daemon) sessionsFile() string {
	return filepath.Join(paths.StateDir(d.cfg.Name), "sessions.json")
}

// savedSessions is the file's content, by model.
type savedSessions struct {
	Schema int                              `json:"schema"`
	Models map[string][]router.SavedSession `json:"models"`
}

// keepSessions writes the file until ctx ends. A full or read-only disk is told
// once.
func (d *Daemon) keepSessions(ctx context.Context) {
	tick := time.NewTicker(sessionsEach)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := d.saveSessions()
		if err != nil && !failed {
			d.log.Warn("sessions cannot be saved: after a crash of warden they begin anew", "err", err)
		}
		failed = err != nil
	}
}

func (d *Daemon) saveSessions() error {
	d.saving.Lock()
	defer d.saving.Unlock()
	out := savedSessions{Schema: 1, Models: map[string][]router.SavedSession{}}
	for _, m := range d.models {
		sessions := d.router.SaveSessions(m.Alias)
		slices.SortFunc(sessions, func(a, b router.SavedSession) int { return cmp.Compare(a.Key, b.Key) })
		out.Models[m.Alias] = sessions
	}
	content, err := json.Marshal(out)
	if err != nil {
		return err
	}
	if bytes.Equal(content, d.saved) {
		return nil
	}
	if err := paths.Replace(d.sessionsFile(), content); err != nil {
		return err
	}
	d.saved = content
	return nil
}

// loadSessions gives the router what an earlier warden saved.
func (d *Daemon) loadSessions() {
	content, err := os.ReadFile(d.sessionsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var saved savedSessions
	if err == nil {
		err = json.Unmarshal(content, &saved)
	}
	if err != nil {
		d.log.Warn("saved sessions cannot be read: they begin anew", "err", err)
		return
	}
	for _, m := range d.models {
		if err := d.router.RestoreSessions(m.Alias, saved.Models[m.Alias]); err != nil {
			d.log.Warn("saved sessions", "model", m.Alias, "err", err)
		}
	}
}
