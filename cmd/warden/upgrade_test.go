package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/behind"
	"github.com/lm-warden/warden/supervisor/control"
)

// Streams in flight and requests that keep coming live through two upgrades:
// none fails, and no engine is started anew.
func TestUpgradeFailsNothing(t *testing.T) {
	w := start(t, "--dp", "2")
	before := identities(w.waitFor(allReady))
	const streams, clients = 24, 4
	answers := make([]answer, streams)
	began := make(chan struct{}, streams)
	var inFlight, sequential sync.WaitGroup
	for i := range streams {
		inFlight.Go(func() {
			body := fmt.Sprintf(`{"model":"qwen3-4b","stream":true,"max_tokens":100,"ignore_eos":true,"messages":[{"role":"user","content":"stream %d"}]}`, i)
			answers[i] = w.post("/v1/chat/completions", fmt.Sprintf("s-%d", i), body, func() { began <- struct{}{} })
		})
	}
	var stop atomic.Bool
	var served atomic.Int64
	for i := range clients {
		sequential.Go(func() { // one connection each, used again and again
			for !stop.Load() {
				if a := w.chat(fmt.Sprintf("c-%d", i), "again", i%2 == 0, 4); a.err != nil || a.code != 200 {
					t.Errorf("client %d: %d %v %.200s", i, a.code, a.err, a.body)
					return
				}
				served.Add(1)
			}
		})
	}
	for range streams / 2 {
		<-began
	}
	pids := []int{w.cmd.Process.Pid}
	for range 2 {
		out, code := w.runCommand("upgrade")
		if code != 0 {
			t.Fatalf("upgrade: exit code %d\n%s", code, out)
		}
		v, err := w.client.Version(t.Context())
		if err != nil || slices.Contains(pids, v.PID) {
			t.Fatalf("after the upgrade of %v: %+v, %v", pids, v, err)
		}
		pids = append(pids, v.PID)
		at := served.Load()
		w.waitFor(func(control.Status) bool { return served.Load() > at+clients })
	}
	inFlight.Wait()
	stop.Store(true)
	sequential.Wait()
	for i, a := range answers {
		if a.err != nil || a.code != 200 || !strings.Contains(a.body, "data: [DONE]") || strings.Contains(a.body, `"error"`) {
			t.Errorf("stream %d: %d %v ...%.100s", i, a.code, a.err, a.body)
		}
	}
	t.Logf("%d streams and %d requests through 2 upgrades", streams, served.Load())
	if diff := cmp.Diff(before, identities(w.waitFor(allReady))); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
	// The first process still stands for the whole in front of whoever started
	// it: a signal to it stops the last one, and its exit code is that one's.
	http.DefaultClient.CloseIdleConnections()
	if err := w.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.done:
	case <-time.After(30 * time.Second):
		t.Fatal("warden does not end after an upgrade")
	}
	if code := w.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// A stop that comes while the old process still answers waits for its streams.
func TestStopAfterUpgradeWaitsForOldStreams(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("these tests run under nohup, which warden respects")
	}
	w := start(t, "--dp", "1")
	began := make(chan struct{}, 1)
	result := make(chan answer, 1)
	go func() {
		result <- w.post("/v1/chat/completions", "old", `{"model":"qwen3-4b","stream":true,"max_tokens":150,"ignore_eos":true,"messages":[{"role":"user","content":"x"}]}`,
			func() { began <- struct{}{} })
	}()
	<-began
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil { // nobody has a terminal: an upgrade
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for { // the control socket is closed and opened again meanwhile
		if v, err := w.client.Version(ctx); err == nil && v.PID != w.cmd.Process.Pid {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal("no other process answers after SIGHUP")
		}
	}
	if out, code := w.runCommand("down"); code != 0 {
		t.Errorf("down: exit code %d\n%s", code, out)
	}
	if a := <-result; a.err != nil || !strings.Contains(a.body, "[DONE]") {
		t.Errorf("the stream of the old process was cut: %v ...%.200s", a.err, a.body)
	}
}

// A request that waits for a replica to start is answered, although its warden
// leaves meanwhile and the engine comes up under the next one.
func TestUpgradeWhileRequestsWaitForAStart(t *testing.T) {
	w := launch(t, newHome(t), "--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0", "--dp", "1", "--", "--sim-load", "8s")
	result := make(chan answer, 1)
	go func() { result <- w.chat("early", "bird", true, 4) }()
	status := w.waitFor(func(s control.Status) bool { return len(s.Models[0].Queue) == 1 && s.Replicas[0].PID > 0 })
	if out, code := w.runCommand("upgrade"); code != 0 {
		t.Fatalf("upgrade: exit code %d\n%s", code, out)
	}
	select {
	case a := <-result:
		t.Fatalf("answered before the engine was ready: %d %v %.200s", a.code, a.err, a.body)
	default:
	}
	late := w.chat("late", "bird", true, 4) // the new warden holds requests too
	for name, a := range map[string]answer{"early": <-result, "late": late} {
		if a.err != nil || a.code != 200 || !strings.Contains(a.body, "[DONE]") {
			t.Errorf("%s: %d %v %.200s", name, a.code, a.err, a.body)
		}
	}
	if r := w.waitFor(allReady).Replicas[0]; r.PID != status.Replicas[0].PID {
		t.Errorf("the engine of pid %d was started anew as %d", status.Replicas[0].PID, r.PID)
	}
}

// A stop ends the old warden too, also when a request waits there for an engine
// that is not coming any more.
func TestStopWhileAnOldRequestWaits(t *testing.T) {
	w := launch(t, newHome(t), "--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0", "--dp", "1", "--", "--sim-load", "60s")
	result := make(chan answer, 1)
	go func() { result <- w.chat("early", "bird", true, 4) }()
	w.waitFor(func(s control.Status) bool { return len(s.Models[0].Queue) == 1 && s.Replicas[0].PID > 0 })
	for _, args := range [][]string{{"upgrade"}, {"down", "--now"}} {
		if out, code := w.runCommand(args...); code != 0 {
			t.Fatalf("%v: exit code %d\n%s", args, code, out)
		}
	}
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the old process still waits")
	}
	if a := <-result; a.err == nil && a.code == 200 {
		t.Errorf("answered by nobody: %.200s", a.body)
	}
}

// A warden that was started behind a terminal stops when what is in front of it
// goes away without a word, also after an upgrade; after "detach" it stays.
func TestLeashAcrossAnUpgrade(t *testing.T) {
	for _, word := range []string{"", behind.DetachWord} {
		t.Run("word "+strings.TrimSpace(word), func(t *testing.T) {
			w, leash := launchLeashed(t)
			w.waitFor(allReady)
			if out, code := w.runCommand("upgrade"); code != 0 {
				t.Fatalf("upgrade: exit code %d\n%s", code, out)
			}
			if _, err := leash.WriteString(word); err != nil {
				t.Fatal(err)
			}
			leash.Close()
			select {
			case <-w.done:
			case <-time.After(30 * time.Second):
				t.Fatal("the first process does not end")
			}
			_, err := w.client.Version(t.Context())
			if word == behind.DetachWord && err != nil {
				t.Errorf("detached, and then: %v", err)
			}
			if word == "" && !errors.Is(err, control.ErrNoDaemon) {
				t.Errorf("let go, and there is still a warden: %v", err)
			}
		})
	}
}

// launchLeashed is what `warden up -d` does, with the leash in the test's hand.
func launchLeashed(t *testing.T) (*running, *os.File) {
	t.Helper()
	home := newHome(t)
	leashRead, leash, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { leash.Close() })
	reportRead, reportWrite, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reportRead.Close() })
	log, err := os.Create(filepath.Join(home, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	w := &running{t: t, home: home, output: &syncBuffer{}, done: make(chan struct{})}
	w.cmd = exec.Command(binary, "up", "--leash", "--demo", "--demo-sessions", "0", "--dp", "1", "--listen", "127.0.0.1:0")
	w.cmd.Env, w.cmd.Dir = environment(home), home
	w.cmd.Stdout, w.cmd.Stderr = log, log // a file: the end of the first process is not hidden by the next
	w.cmd.ExtraFiles = []*os.File{leashRead, reportWrite}
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	leashRead.Close()
	reportWrite.Close()
	go func() {
		defer close(w.done)
		_ = w.cmd.Wait()
	}()
	t.Cleanup(w.cleanUp)
	w.connect()
	return w, leash
}

// An upgrade that cannot start changes nothing.
func TestUpgradeWithABadConfiguration(t *testing.T) {
	w := start(t, "--dp", "1")
	before := identities(w.waitFor(allReady))
	config := filepath.Join(w.home, "warden", "config.yaml")
	writeFile(t, config, "max_wait: 900s\n")
	out, code := w.runCommand("upgrade", "--name", "default")
	if code == 0 || !strings.Contains(out, "max_wait") {
		t.Errorf("upgrade: exit code %d\n%s", code, out)
	}
	if err := os.Remove(config); err != nil {
		t.Fatal(err)
	}
	if a := w.chat("still", "here", false, 4); a.code != 200 {
		t.Errorf("after the failed upgrade: %d %v %s", a.code, a.err, a.body)
	}
	if diff := cmp.Diff(before, identities(w.waitFor(allReady))); diff != "" {
		t.Errorf("engines before (-) and after (+):\n%s", diff)
	}
}
