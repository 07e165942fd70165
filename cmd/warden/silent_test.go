package main

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/supervisor/control"
)

// In the moment between two wardens nobody listens. A command that took it for
// the end would be wrong, and `down` would end the engines of the second.
func TestUpgradeIsNeverTakenForTheEnd(t *testing.T) {
	w := start(t, "--dp", "2")
	before := identities(w.waitFor(allReady))
	socket := w.client.Socket()
	ctx, stop := context.WithCancel(t.Context())
	asked := make(chan int)
	go func() {
		n := 0
		for ; ctx.Err() == nil; n++ {
			c, err := control.Dial(t.Context(), socket)
			if err != nil {
				t.Errorf("dial %d: %v", n, err)
				break
			}
			c.Close()
		}
		asked <- n
	}()
	for range 3 {
		if out, code := w.runCommand("upgrade"); code != exit.OK {
			t.Errorf("upgrade: %d %s", code, out)
		}
	}
	stop()
	t.Logf("%d dials during three upgrades", <-asked)
	w.connect()
	if diff := cmp.Diff(before, identities(w.waitFor(allReady))); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
}

// A logout takes the directory of sockets along: the warden can still be found.
func TestStopWithoutASocket(t *testing.T) {
	w := start(t, "--dp", "1")
	w.waitFor(allReady)
	if err := os.Remove(w.client.Socket()); err != nil {
		t.Fatal(err)
	}
	if out, code := w.runCommand("down"); code != exit.OK || strings.Contains(out, "was gone") {
		t.Errorf("%d %s", code, out)
	}
	<-w.done
}

// Commands do not wait for ever for a warden that is stopped.
func TestCommandsOfAStoppedWarden(t *testing.T) {
	w := start(t, "--dp", "1")
	w.waitFor(allReady)
	if err := w.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"status", "down"} {
		if out, code := w.runCommand(command); code != exit.Failed || !strings.Contains(out, "kill -CONT") {
			t.Errorf("%s: %d %s", command, code, out)
		}
	}
	if err := w.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.waitFor(allReady)
}
