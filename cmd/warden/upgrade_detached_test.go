package main

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// The old warden of an `up -d` has nobody who waits for it: it ends as soon as
// its answers are out, and its end must not stop the new one.
func TestUpgradeOfADetachedWarden(t *testing.T) {
	home := newHome(t)
	t.Cleanup(func() { runWarden(t, home, "down", "--now") })
	if out, code := runWarden(t, home, "up", "-d", "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0"); code != 0 {
		t.Fatalf("up -d: exit code %d\n%s", code, out)
	}
	for round := range 3 {
		before := statusOf(t, home)
		if out, code := runWarden(t, home, "upgrade"); code != 0 {
			t.Fatalf("upgrade %d: exit code %d\n%s", round, code, out)
		}
		await(t, 20*time.Second, "the old warden's end", func() bool {
			command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", before.PID))
			return err != nil || len(command) == 0 // gone, or not reaped yet
		})
		var after control.Status
		await(t, 20*time.Second, "the engine's adoption", func() bool {
			after = statusOf(t, home)
			return after.State != control.DaemonStarting
		})
		if after.PID == before.PID || after.State == control.DaemonStopping || after.Replicas[0].PID != before.Replicas[0].PID {
			t.Fatalf("upgrade %d: warden %d is %s, engine %d; before warden %d, engine %d", round,
				after.PID, after.State, after.Replicas[0].PID, before.PID, before.Replicas[0].PID)
		}
	}
}

func statusOf(t *testing.T, home string) (s control.Status) {
	t.Helper()
	out, _ := runWarden(t, home, "status", "--json") // the exit code tells whether all are ready
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("status: %v\n%s", err, out)
	}
	return s
}
