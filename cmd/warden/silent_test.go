package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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

// A program that is no warden changes nothing, and is named; a stop does not
// wait for one that never reports.
func TestUpgradeToSomethingElse(t *testing.T) {
	home := newHome(t)
	program := filepath.Join(home, "program")
	content, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	put := func(content []byte) {
		t.Helper()
		if err := errors.Join(os.WriteFile(program+".new", content, 0o700), os.Rename(program+".new", program)); err != nil {
			t.Fatal(err)
		}
	}
	put(content)
	cmd := exec.Command(program, "up", "--no-tui", "--progress", "plain", "--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0", "--dp", "1",
		"--", "--sim-load", "200ms")
	cmd.Env = environment(home)
	w := launchCommand(t, home, cmd)
	w.waitFor(allReady)
	put([]byte("#!/bin/sh\nexit 7\n"))
	if out, code := w.runCommand("upgrade"); code != exit.Failed || !strings.Contains(out, program+", ended before it was ready: exit status 7") {
		t.Errorf("%d %s", code, out)
	}
	w.waitFor(allReady)
	begun := filepath.Join(home, "begun")
	put([]byte("#!/bin/sh\necho > " + begun + "\nsleep 100\n"))
	upgraded := make(chan string)
	go func() {
		out, _ := w.runCommand("upgrade")
		upgraded <- out
	}()
	w.waitFor(func(control.Status) bool { _, err := os.Stat(begun); return err == nil })
	ordered := time.Now()
	if out, code := w.runCommand("down"); code != exit.OK {
		t.Errorf("down: %d %s", code, out)
	}
	if took := time.Since(ordered); took > 20*time.Second {
		t.Errorf("the stop took %s", took)
	}
	if _, err := control.Dial(t.Context(), w.client.Socket()); !errors.Is(err, control.ErrNoDaemon) {
		t.Errorf("after the stop: %v", err)
	}
	if out := <-upgraded; !strings.Contains(out, "stopping") {
		t.Errorf("the upgrade was told %s", out)
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
