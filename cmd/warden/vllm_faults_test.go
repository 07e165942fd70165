//go:build vllm

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

// Every process around a real vLLM is killed in turn, -rounds times: nothing of
// the old tree is left, it serves again, and warden's own death costs neither a
// load nor the prefix cache.
func TestVLLMFaults(t *testing.T) {
	flags := []string{"--device", "cpu", "--model", "tiny", "--dp", "1", "--vllm", realVLLM(t)}
	w := launch(t, newHome(t), append(flags, "--listen", "127.0.0.1:0")...)
	w.waitAllReady(5 * time.Minute)
	flags = append(flags, "--listen", strings.TrimPrefix(w.url, "http://"))
	for round := range rounds(1) {
		for _, victim := range []string{"API server", "EngineCore", "Worker", "shim"} {
			w.killAround(t, round, victim)
		}
		c := &exactTalk{w: w}
		c.turn(t)
		before := identities(w.waitAllReady(time.Minute))
		kill(t, w.cmd.Process.Pid)
		<-w.done
		began := time.Now()
		w = launch(t, w.home, flags...)
		c.w = w
		c.turn(t)
		t.Logf("round %d: warden killed, answered %s after the next start, its prefix still cached", round, time.Since(began).Round(time.Millisecond))
		if diff := cmp.Diff(before, identities(w.waitAllReady(time.Minute))); diff != "" {
			t.Errorf("round %d: engines before (-) and after (+):\n%s", round, diff)
		}
	}
	if out, code := w.runCommand("down"); code != 0 {
		t.Errorf("down: %d\n%s", code, out)
	}
	if err := goneWithin(w.home, orphanLimit); err != nil {
		t.Error(err)
	}
}

// killAround kills one process of r0 and waits until r0 serves again. A replica
// that fails five times in a quarter of an hour is parked: then it is told to
// start, as a person would.
func (w *running) killAround(t *testing.T, round int, victim string) {
	t.Helper()
	r, _ := remote.FindReplica(w.waitAllReady(time.Minute), "r0")
	tree := sessionOf(r.PID)
	target := 0
	for pid, command := range tree {
		if strings.Contains(command, victim) {
			target = pid
		}
	}
	switch {
	case victim == "API server":
		target = r.PID
	case victim == "shim":
		target = relative(t, w.home, "__shim", "/r0")
	case target == 0:
		t.Logf("round %d: this vLLM has no %s of its own: %d processes", round, victim, len(tree))
		return
	}
	killed := kill(t, target)
	parked := false
	w.waitWithin(10*time.Minute, func(s control.Status) bool {
		now, _ := remote.FindReplica(s, "r0")
		if now.State == control.StateParked && !parked {
			parked = true
			w.runCommand("restart", "r0")
		}
		return now.State == control.StateReady && now.Generation > r.Generation
	})
	for pid, command := range tree {
		if alive(pid) {
			t.Errorf("round %d, %s killed: pid %d (%s) of the old tree is alive", round, victim, pid, command)
		}
	}
	w.waitAllReady(time.Minute)
	a := w.post("/v1/chat/completions", "", `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`, nil)
	t.Logf("round %d: %s killed, %d processes gone, serves again after %s (parked before: %v)", round, victim, len(tree), time.Since(killed).Round(time.Second/10), parked)
	if a.code != 200 {
		t.Errorf("round %d, %s killed: answer %d %s", round, victim, a.code, a.body)
	}
}
