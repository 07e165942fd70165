package main

import (
	"strings"
	"syscall"
	"testing"

	"github.com/lm-warden/warden/supervisor/control"
)

// The end of an engine takes time. Turns that come meanwhile wait for the next
// one, as they do before and after; so do those of a restart by order.
func TestTurnsAreHeldWhileTheOnlyReplicaIsReplaced(t *testing.T) {
	w := start(t, "--dp", "1")
	s, err := w.client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for pid, command := range processesOf(w.home) {
		if strings.Contains(command, "__shim") { // so that the end takes a while
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := syscall.Kill(s.Replicas[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stopping := w.waitFor(func(s control.Status) bool { return s.Replicas[0].State == control.StateStopping })
	if stopping.State != control.DaemonStarting {
		t.Errorf("the warden is %s while its replica is replaced", stopping.State)
	}
	if a := w.chat("held", "hello", false, 4); a.code != 200 {
		t.Errorf("%d %v %s", a.code, a.err, a.body)
	}
	if out, code := w.runCommand("restart", "r0"); code != 0 {
		t.Errorf("restart: %d %s", code, out)
	}
	if a := w.chat("held", "hello again", false, 4); a.code != 200 {
		t.Errorf("after the order to restart: %d %v %s", a.code, a.err, a.body)
	}
}
