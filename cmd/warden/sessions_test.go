package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// sessionsEach is how often warden writes where conversations live.
const sessionsEach = 2 * time.Second

// Conversations keep their replica when warden is killed and started again.
func TestSessionsGoHomeAfterACrash(t *testing.T) {
	flags := []string{"--dp", "4"}
	w := start(t, flags...)
	const sessions = 12
	homes := map[int]string{}
	for i := range sessions {
		homes[i] = w.chat(fmt.Sprintf("home-%d", i), "before", false, 2).replica
	}
	w.waitFor(func(control.Status) bool { return w.savedSessions() == sessions })
	kill(t, w.cmd.Process.Pid)
	w = w.again(flags...)
	w.waitFor(allReady)
	for i := range sessions {
		if a := w.chat(fmt.Sprintf("home-%d", i), "after", false, 2); a.replica != homes[i] || a.reason != "sticky" {
			t.Errorf("conversation %d lived on %s and went to %s (%s)", i, homes[i], a.replica, a.reason)
		}
	}
}

func (w *running) savedSessions() int {
	content, err := os.ReadFile(filepath.Join(w.home, "warden", "default", "sessions.json"))
	var saved struct{ Models map[string][]json.RawMessage }
	if err != nil || json.Unmarshal(content, &saved) != nil {
		return -1
	}
	return len(saved.Models["qwen3-4b"])
}
