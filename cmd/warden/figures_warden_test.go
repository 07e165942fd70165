package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

// again starts a warden in the directories and on the address of one that is
// gone.
func (w *running) again(flags ...string) *running {
	w.t.Helper()
	<-w.done
	return launch(w.t, w.home, append([]string{"--demo", "--demo-sessions", "0", "--listen", strings.TrimPrefix(w.url, "http://")}, flags...)...)
}

// Figure 5: warden is killed. Engines run on as they are, the next warden routes
// to them within 2 s of its start, and conversations keep their replica although
// all clients come back in the same moment.
func TestFigureWardenKilled(t *testing.T) {
	flags := []string{"--dp", "4", "--spill-limit", "40", "--", "--sim-load", "200ms"}
	w := start(t, flags...)
	const sessions = 40
	const bar = 2 * time.Second
	before := identities(w.waitFor(allReady))
	homes := map[int]string{}
	for _, i := range rand.Perm(sessions) { // else the same order gives the same places
		homes[i] = w.chat(fmt.Sprintf("kept-%d", i), "before", false, 2).replica
	}
	for range rounds(3) {
		pause(sessionsEach + 500*time.Millisecond) // what is younger is not written yet
		timely(t, func() error {
			kill(t, w.cmd.Process.Pid)
			<-w.done
			began := time.Now()
			answers := w.comeBack(t.Context(), sessions)
			w = w.again(flags...)
			kept, last := 0, time.Duration(0)
			for i, one := range answers() {
				if !one.complete() {
					t.Errorf("session %d: %s", i, one)
				}
				if one.replica == homes[i] {
					kept++
				}
				last = max(last, one.first.Sub(began))
			}
			t.Logf("all %d answered %s after the new start, %d where they were", sessions, last, kept)
			if kept < sessions*95/100 {
				t.Errorf("only %d of %d conversations are where they were", kept, sessions)
			}
			if last > bar {
				return fmt.Errorf("answered %s after the new start, bar %s", last, bar)
			}
			return nil
		})
		if diff := cmp.Diff(before, identities(w.waitFor(allReady))); diff != "" {
			t.Errorf("engines before (-) and after (+):\n%s", diff)
		}
	}
}

// comeBack lets all sessions send their next turn as soon as somebody listens.
func (w *running) comeBack(ctx context.Context, sessions int) (answers func() []call) {
	c := w.newClient()
	all := make([]call, sessions)
	var wg sync.WaitGroup
	for i := range sessions {
		wg.Go(func() {
			for all[i] = c.stream(ctx, fmt.Sprintf("kept-%d", i), "after", 2, nil); errors.Is(all[i].err, syscall.ECONNREFUSED); {
				pause(10 * time.Millisecond)
				all[i] = c.stream(ctx, fmt.Sprintf("kept-%d", i), "after", 2, nil)
			}
		})
	}
	return func() []call { wg.Wait(); return all }
}

// Figure 6: upgrades under many streams fail nothing and load no model.
func TestFigureUpgrade(t *testing.T) {
	w := start(t, "--dp", "4", "--max-num-seqs", "64", "--", "--sim-load", "200ms", "--sim-speed", "0.5")
	c := w.newClient()
	before := identities(w.waitFor(allReady))
	const streams = 200
	for range rounds(1) {
		var open calls
		var begun atomic.Int32
		for i := range streams {
			open.wg.Go(func() {
				open.add(c.stream(t.Context(), fmt.Sprintf("upgrade-%d", i), "go on", 150, func() { begun.Add(1) }))
			})
		}
		await(t, time.Minute, "all streams have begun", func() bool { return begun.Load() == streams })
		ctx, stop := context.WithCancel(t.Context())
		arriving := c.trickle(ctx, 20*time.Millisecond, "arriving")
		if out, code := w.runCommand("upgrade"); code != 0 {
			t.Fatalf("upgrade: %d\n%s", code, out)
		}
		c.http.CloseIdleConnections() // else the old warden waits for them
		all := open.wait()
		stop()
		for _, one := range append(all, arriving.wait()...) {
			if !one.complete() {
				t.Errorf("failed: %s", one)
			}
		}
		if diff := cmp.Diff(before, identities(w.waitFor(allReady))); diff != "" {
			t.Errorf("engines before (-) and after (+):\n%s", diff)
		}
	}
}

// Figure 20: an engine, and then warden itself, are stopped for some time (60 s
// with -rounds 6). Nothing is restarted for it, and what was held goes on.
func TestFigureFrozen(t *testing.T) {
	t.Parallel() // it waits most of its time
	frozen := time.Duration(rounds(10)) * time.Second
	const bar = 2 * time.Second
	w := start(t, append([]string{"--dp", "2"}, quick...)...)
	c := w.newClient()
	before := w.waitFor(allReady)
	stopped := func(pid int, meanwhile func()) *calls {
		var held calls
		var begun atomic.Int32
		for i := range 4 {
			held.wg.Go(func() {
				held.add(c.stream(t.Context(), fmt.Sprintf("frozen-%d", i), "go on", 100, func() { begun.Add(1) }))
			})
		}
		await(t, 10*time.Second, "streams have begun", func() bool { return begun.Load() == 4 })
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		pause(frozen)
		meanwhile()
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		return &held
	}
	check := func(who string, held *calls, woken time.Time) {
		for _, one := range held.wait() {
			if !one.complete() {
				t.Errorf("%s frozen for %s: a held request failed: %s", who, frozen, one)
			}
		}
		w.poll("all are ready", allReady)
		took := time.Since(woken)
		t.Logf("%s frozen for %s: all ready %s after", who, frozen, took)
		if took > bar+time.Second { // held answers need most of a second themselves
			t.Errorf("%s frozen for %s: ready only %s after", who, frozen, took)
		}
		pause(bar) // for whoever draws conclusions late
		if diff := cmp.Diff(identities(before), identities(w.waitFor(allReady))); diff != "" {
			t.Errorf("%s frozen: engines before (-) and after (+):\n%s", who, diff)
		}
	}
	r0, _ := remote.FindReplica(before, "r0")
	held := stopped(r0.PID, func() {
		if s, err := w.client.Status(t.Context()); err != nil {
			t.Error(err)
		} else if r, _ := remote.FindReplica(s, "r0"); r.State != control.StateSuspect {
			t.Errorf("the frozen engine is %s, not suspect", r.State)
		}
	})
	check("engine", held, time.Now())
	held = stopped(w.cmd.Process.Pid, func() {})
	check("warden", held, time.Now())
}
