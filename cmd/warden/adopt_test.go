package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/supervisor/control"
)

// engineIdentity is what stays when an engine is adopted instead of started.
type engineIdentity struct {
	PID        int
	Generation uint64
}

func identities(s control.Status) map[string]engineIdentity {
	all := map[string]engineIdentity{}
	for _, r := range s.Replicas {
		all[r.ID] = engineIdentity{r.PID, r.Generation}
	}
	return all
}

func allReady(s control.Status) bool {
	return len(s.Replicas) > 0 && s.Count(control.StateReady) == len(s.Replicas)
}

// talk is one conversation of a client that sends its whole history.
type talk struct {
	w       *running
	session string
	history []string
}

// turn sends one turn and returns the answer and the prompt tokens that the
// engine found in its prefix cache.
func (c *talk) turn(text string) (a answer, cached int) {
	c.history = append(c.history, fmt.Sprintf(`{"role":"user","content":%q}`, text+strings.Repeat(" lorem ipsum", 60)))
	a = c.w.post("/v1/chat/completions", c.session,
		fmt.Sprintf(`{"model":"qwen3-4b","max_tokens":8,"messages":[%s]}`, strings.Join(c.history, ",")), nil)
	var body struct {
		Choices []struct{ Message json.RawMessage }
		Usage   struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || len(body.Choices) != 1 {
		c.w.t.Fatalf("no answer: %d %v %.300s", a.code, err, a.body)
	}
	c.history = append(c.history, string(body.Choices[0].Message))
	return a, body.Usage.Details.Cached
}

// warden is killed and started again: the engines run on as they were, their
// prefix caches with them, on the same address.
func TestRestartAfterACrashAdopts(t *testing.T) {
	for _, listen := range []string{"unix", "tcp"} {
		t.Run(listen, func(t *testing.T) {
			home := newHome(t)
			writeFile(t, home+"/warden/config.yaml", "engine:\n  listen: "+listen+"\n")
			// Without affinity the turns of one conversation fill both caches, so
			// whichever replica serves the next one must find it there.
			flags := []string{"--demo", "--demo-sessions", "0", "--dp", "2", "--affinity", "off"}
			w := launch(t, home, append(flags, "--listen", "127.0.0.1:0")...)
			status := w.waitFor(allReady)
			for _, r := range status.Replicas {
				if _, err := os.Stat(filepath.Join(status.LogDir, r.ID, "engine.log")); err != nil {
					t.Errorf("its log is not in the log_dir of the status: %v", err)
				}
			}
			before := identities(status)
			c := &talk{w: w, session: "crash"}
			served := map[string]bool{}
			for range 4 {
				a, _ := c.turn("before")
				served[a.replica] = true
			}
			if len(served) != 2 {
				t.Fatalf("served by %v: the test would prove nothing", served)
			}
			if err := w.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			<-w.done

			began := time.Now()
			w = launch(t, home, append(flags, "--listen", strings.TrimPrefix(w.url, "http://"))...)
			c.w = w
			a, cached := c.turn("after")
			t.Logf("answered %s after the second start", time.Since(began))
			if cached == 0 {
				t.Errorf("%s found nothing of the conversation in its prefix cache", a.replica)
			}
			if took := time.Since(began); took > 10*time.Second { // 2 s on a machine of one's own
				t.Errorf("answered %s after the second start", took)
			}
			if diff := cmp.Diff(before, identities(w.waitFor(allReady))); diff != "" {
				t.Errorf("engines before (-) and after (+):\n%s", diff)
			}
		})
	}
}

// What the new configuration has no use for is ended.
func TestRestartWithFewerReplicasEndsTheRest(t *testing.T) {
	w := start(t, "--dp", "2")
	before := identities(w.waitFor(allReady))
	if err := w.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-w.done
	w = launch(t, w.home, "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0")
	after := identities(w.waitFor(allReady))
	if after["r0"] != before["r0"] || len(after) != 1 {
		t.Errorf("before %v, after %v", before, after)
	}
	for pid, command := range processesOf(w.home) {
		if strings.Contains(command, "/r1") {
			t.Errorf("still there: %d %s", pid, command)
		}
	}
	if err := syscall.Kill(before["r1"].PID, 0); err == nil {
		t.Errorf("the engine of r1 (pid %d) still runs", before["r1"].PID)
	}
}
