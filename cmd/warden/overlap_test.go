package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor/control"
)

// holdStream begins an answer of so many tokens and returns when it has begun.
func (w *running) holdStream(session string, tokens int) (result <-chan answer) {
	began, done := make(chan struct{}, 1), make(chan answer, 1)
	go func() {
		body := fmt.Sprintf(`{"model":"qwen3-4b","stream":true,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`, tokens)
		done <- w.post("/v1/chat/completions", session, body, func() { began <- struct{}{} })
	}()
	<-began
	return done
}

// What the warden before still answers counts as held at the one that took over:
// a drain waits for it.
func TestDrainWaitsForAnswersOfTheWardenBefore(t *testing.T) {
	w := start(t, "--dp", "1")
	result := w.holdStream("old", 150)
	if out, code := w.runCommand("upgrade"); code != 0 {
		t.Fatalf("upgrade: exit code %d\n%s", code, out)
	}
	w.waitFor(func(s control.Status) bool { return s.Replicas[0].Held == 1 && s.Totals.Held == 1 })
	if out, code := w.runCommand("drain", "r0", "--wait"); code != 0 {
		t.Fatalf("drain: exit code %d\n%s", code, out)
	}
	select {
	case a := <-result:
		if a.err != nil || !strings.Contains(a.body, "[DONE]") {
			t.Errorf("the answer was cut by the drain: %v ...%.200s", a.err, a.body)
		}
	default:
		t.Error("drained, and an answer is not at its end")
	}
}

// That holds over several upgrades: what the first one still answers is held at
// the last one, whose drain and stop wait for it.
func TestAnswersOfTheWardenBeforeTheLast(t *testing.T) {
	for _, args := range [][]string{{"drain", "r0", "--wait"}, {"down"}} {
		t.Run(args[0], func(t *testing.T) {
			w := start(t, "--dp", "1")
			result := w.holdStream("old", 500)
			for range 2 {
				if out, code := w.runCommand("upgrade"); code != 0 {
					t.Fatalf("upgrade: exit code %d\n%s", code, out)
				}
			}
			w.waitFor(func(s control.Status) bool { return s.Replicas[0].Held == 1 && s.Totals.Held == 1 })
			if out, code := w.runCommand(args...); code != 0 {
				t.Fatalf("%v: exit code %d\n%s", args, code, out)
			}
			select {
			case a := <-result:
				if a.err != nil || !strings.Contains(a.body, "[DONE]") {
					t.Errorf("the answer was cut: %v ...%.200s", a.err, a.body)
				}
			case <-time.After(time.Second): // its end is on its way
				t.Error("done, and an answer is not at its end")
			}
		})
	}
}

// The first process stays in front of whoever started it. Shims that it started
// and that end under the next one do not stay there as zombies.
func TestShimsOfTheWardenBeforeAreReaped(t *testing.T) {
	w := start(t, "--dp", "1")
	w.waitFor(allReady)
	if out, code := w.runCommand("upgrade"); code != 0 {
		t.Fatalf("upgrade: exit code %d\n%s", code, out)
	}
	if out, code := w.runCommand("restart", "r0"); code != 0 {
		t.Fatalf("restart: exit code %d\n%s", code, out)
	}
	await(t, 5*time.Second, "no zombie is left", func() bool { return len(zombiesOf(t, w.cmd.Process.Pid)) == 0 })
}

// zombiesOf lists the children of a process that have ended and were not waited
// for.
func zombiesOf(t *testing.T, parent int) (zombies []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err != nil {
			continue // no process, or gone
		}
		_, rest, _ := strings.Cut(string(stat), ") ")
		if strings.HasPrefix(rest, fmt.Sprintf("Z %d ", parent)) {
			zombies = append(zombies, entry.Name())
		}
	}
	return zombies
}

// An upgrade that comes too late says so, at any moment of the stop.
func TestUpgradeOfAStoppingWarden(t *testing.T) {
	w := start(t, "--dp", "1", "--drain", "60s")
	result := w.holdStream("long", 4000)
	down := make(chan int, 1)
	go func() { _, code := w.runCommand("down"); down <- code }()
	w.waitFor(func(s control.Status) bool { return s.State == control.DaemonStopping })
	out, code := w.runCommand("upgrade")
	if code != 1 || !strings.Contains(out, "error: warden is stopping\n") || !strings.Contains(out, "warden up") {
		t.Errorf("upgrade: exit code %d\n%s", code, out)
	}
	if out, code := w.runCommand("down", "--now"); code != 0 {
		t.Errorf("down --now: exit code %d\n%s", code, out)
	}
	<-result
	if code := <-down; code != 0 {
		t.Errorf("down: exit code %d", code)
	}
}
