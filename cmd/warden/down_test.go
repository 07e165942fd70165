package main

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// warden dies while `down` waits for its drain: down ends the engines itself.
func TestDownEndsWhatADyingWardenLeaves(t *testing.T) {
	w := start(t, "--dp", "2", "--drain", "120s")
	began := make(chan struct{}, 1)
	held := make(chan answer, 1)
	go func() {
		held <- w.post("/v1/chat/completions", "long", `{"model":"qwen3-4b","stream":true,"max_tokens":4000,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`,
			func() { began <- struct{}{} })
	}()
	<-began
	type result struct {
		out  string
		code int
	}
	down := make(chan result, 1)
	go func() {
		out, code := w.runCommand("down")
		down <- result{out, code}
	}()
	w.waitFor(func(s control.Status) bool { return s.State == control.DaemonStopping })
	if err := syscall.Kill(w.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	got := <-down
	<-held
	if got.code != 0 || !strings.Contains(got.out, "its warden was gone") {
		t.Errorf("down: exit code %d\n%s", got.code, got.out)
	}
	if left := processesOf(w.home); len(left) > 0 {
		t.Errorf("left after down: %v", left)
	}
}

// Whoever says --now does not wait for what does not answer: a stopped shim, a stopped engine.
func TestDownNowKillsWhatIsStopped(t *testing.T) {
	for _, who := range []string{"__shim", "__simengine"} {
		t.Run(who, func(t *testing.T) {
			w := start(t, "--dp", "2")
			stopped := false
			for pid, command := range processesOf(w.home) {
				if !stopped && strings.Contains(command, who) {
					stopped = true
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Fatal(err)
					}
				}
			}
			begun := time.Now()
			out, code := w.runCommand("down", "--now")
			if took := time.Since(begun); !stopped || code != 0 || took > 15*time.Second { // 4 s; 38 s before
				t.Errorf("stopped one: %t; down: exit code %d after %s\n%s", stopped, code, took, out)
			}
			if left := processesOf(w.home); len(left) > 0 {
				t.Errorf("left after down: %v", left)
			}
		})
	}
}
