package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

func TestThousandTurnsStayAndSpreadEvenly(t *testing.T) {
	w := start(t, "--dp", "4", "--spill-limit", "16") // above the 10 that arrive at once
	const sessions, turns = 40, 25
	home := make([]string, sessions)
	var mu sync.Mutex
	failed := 0
	for turn := range turns {
		var wg sync.WaitGroup
		for s := range sessions {
			wg.Go(func() {
				a := w.chat(fmt.Sprintf("thousand-%d", s), fmt.Sprintf("session %d turn %d", s, turn), s%2 == 0, 4)
				mu.Lock()
				defer mu.Unlock()
				if a.err != nil || a.code != 200 {
					failed++
					t.Errorf("session %d turn %d: %d %v %s", s, turn, a.code, a.err, a.body)
				}
				if home[s] == "" {
					home[s] = a.replica
				}
				if a.replica != home[s] {
					t.Errorf("session %d moved from %s to %s (%s)", s, home[s], a.replica, a.reason)
				}
			})
		}
		wg.Wait()
	}
	perReplica := map[string]int{}
	for _, h := range home {
		perReplica[h]++
	}
	for id, n := range perReplica {
		if n < sessions/4-1 || n > sessions/4+1 {
			t.Errorf("%s is home of %d sessions, want %d within 1: %v", id, n, sessions/4, perReplica)
		}
	}
	status := w.waitFor(func(s control.Status) bool { return s.Totals.Held == 0 })
	if status.Totals.Requests < sessions*turns || status.Totals.Errors > 0 || failed > 0 {
		t.Errorf("requests %d, errors %d, failed %d", status.Totals.Requests, status.Totals.Errors, failed)
	}
}

func TestAffinityOffAndOnLive(t *testing.T) {
	w := start(t, "--dp", "2")
	w.chat("live", "hello", false, 4)
	if a := w.chat("live", "hello again", false, 4); a.reason != "sticky" {
		t.Fatalf("reason %q before the change", a.reason)
	}
	out, code := w.runCommand("affinity", "off", "qwen3-4b")
	if code != 0 || !strings.Contains(out, "on (affinity) -> off (balance)") {
		t.Fatalf("affinity off: %d %s", code, out)
	}
	if a := w.chat("live", "and again", false, 4); a.reason != "balance" {
		t.Errorf("reason %q after affinity off", a.reason)
	}
	if _, code := w.runCommand("affinity", "on", "qwen3-4b"); code != 0 {
		t.Errorf("affinity on: exit code %d", code)
	}
	if a := w.chat("live", "and again", false, 4); a.reason != "sticky" {
		t.Errorf("reason %q after affinity on: the session must still be known", a.reason)
	}
}

// A replica dies under 64 streams: those that had no byte yet finish elsewhere,
// the others see an error, and none looks complete that is not.
func TestKilledReplicaUnderStreams(t *testing.T) {
	w := start(t, "--dp", "4", "--max-num-seqs", "8")
	const streams = 64
	answers := make([]answer, streams)
	began := make(chan struct{}, streams)
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() {
			body := fmt.Sprintf(`{"model":"qwen3-4b","stream":true,"max_tokens":400,"ignore_eos":true,"messages":[{"role":"user","content":"stream %d"}]}`, i)
			answers[i] = w.post("/v1/chat/completions", fmt.Sprintf("stream-%d", i), body, func() { began <- struct{}{} })
		})
	}
	for range 16 { // about half of what may run at once has begun
		<-began
	}
	victim, _ := remote.FindReplica(w.waitFor(func(s control.Status) bool { return s.Replicas[1].Held > 0 }), "r1")
	if err := syscall.Kill(victim.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	complete, cut := 0, 0
	for i, a := range answers {
		ended := strings.Contains(a.body, "data: [DONE]")
		switch {
		case a.err == nil && a.code == 200 && ended && !strings.Contains(a.body, `"error"`):
			complete++
		case a.replica == "r1" && !ended:
			cut++
			if !strings.Contains(a.body, `"error"`) && a.err == nil {
				t.Errorf("stream %d was cut and looks complete: %.200s", i, a.body)
			}
		default:
			t.Errorf("stream %d on %s (%s): code %d, error %v, body %.300s", i, a.replica, a.reason, a.code, a.err, a.body)
		}
	}
	t.Logf("%d complete, %d cut on the killed replica", complete, cut)
	if complete+cut != streams || complete < streams*3/4 {
		t.Errorf("%d complete and %d cut of %d", complete, cut, streams)
	}
	w.waitFor(func(s control.Status) bool {
		r, _ := remote.FindReplica(s, "r1")
		return r.State == control.StateReady && r.Generation > victim.Generation && s.Totals.Held == 0
	})
}

// kill -9 of any one process, then down: nothing is left. cleanUp checks.
func TestKillAnyProcessThenDown(t *testing.T) {
	for _, who := range []string{"warden", "shim", "engine"} {
		t.Run(who, func(t *testing.T) {
			w := start(t, "--dp", "2")
			before := processesOf(w.home)
			if len(before) < 4 { // two shims, two engines
				t.Fatalf("only %v run", before)
			}
			pid := w.cmd.Process.Pid
			for candidate, command := range before {
				if strings.Contains(command, "__"+who) || who == "engine" && strings.Contains(command, "__simengine") {
					pid = candidate
				}
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if who == "warden" {
				<-w.done
			}
			if out, code := w.runCommand("down"); code != 0 {
				t.Errorf("down: exit code %d\n%s", code, out)
			}
			if left := processesOf(w.home); len(left) > 0 {
				t.Errorf("left after down: %v", left)
			}
		})
	}
}

func TestStopDrainsHeldRequests(t *testing.T) {
	w := start(t, "--dp", "1")
	began := make(chan struct{}, 1)
	result := make(chan answer, 1)
	go func() {
		result <- w.post("/v1/chat/completions", "drain", `{"model":"qwen3-4b","stream":true,"max_tokens":60,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`,
			func() { began <- struct{}{} })
	}()
	<-began
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if a := <-result; a.err != nil || !strings.Contains(a.body, "[DONE]") {
		t.Errorf("the held request was cut: %v %.200s", a.err, a.body)
	}
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
		t.Fatal("warden does not end")
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after one Ctrl-C, want 0", code)
	}
}

func TestSecondSignalKills(t *testing.T) {
	w := start(t, "--dp", "1", "--drain", "120s")
	began := make(chan struct{}, 1)
	go w.post("/v1/chat/completions", "drain", `{"model":"qwen3-4b","stream":true,"max_tokens":4000,"ignore_eos":true,"messages":[{"role":"user","content":"[[sim:words 4000]]"}]}`,
		func() { began <- struct{}{} })
	<-began
	_ = w.cmd.Process.Signal(os.Interrupt)
	w.waitFor(func(s control.Status) bool { return s.State == control.DaemonStopping })
	_ = w.cmd.Process.Signal(os.Interrupt)
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		t.Fatal("warden does not end on the second signal")
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d after two Ctrl-C, want 130", code)
	}
}
