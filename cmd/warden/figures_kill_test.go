package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/supervisor/events"
)

// quick are engine arguments for tests that need many starts.
var quick = []string{"--", "--sim-load", "200ms"}

func kill(t *testing.T, pid int) time.Time {
	t.Helper()
	at := time.Now()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
	return at
}

// readyAgain waits until a replica runs in a newer generation.
func (w *running) readyAgain(before control.Replica) control.Replica {
	w.t.Helper()
	r, _ := remote.FindReplica(w.waitFor(func(s control.Status) bool {
		r, _ := remote.FindReplica(s, before.ID)
		return r.State == control.StateReady && r.Generation > before.Generation
	}), before.ID)
	return r
}

// leaves says that a replica left a state.
func leaves(id, state string) func(events.Event) bool {
	return func(e events.Event) bool {
		return e.Kind == events.KindState && e.Replica == id && e.Fields["from"] == state
	}
}

func enters(id, state string) func(events.Event) bool {
	return func(e events.Event) bool {
		return e.Kind == events.KindState && e.Replica == id && e.Fields["to"] == state
	}
}

// Figure 1: one of four engines is killed while 128 streams are open. Only what
// had sent something from there is cut, the rest is served by others at once,
// and nothing new is sent there.
func TestFigureKillUnderStreams(t *testing.T) {
	w := start(t, "--dp", "4", "--max-num-seqs", "64", "--", "--sim-load", "200ms", "--sim-speed", "0.4")
	c := w.newClient()
	round := 0
	for range rounds(3) {
		timely(t, func() error { round++; return killUnderStreams(t, c, round) })
	}
}

func killUnderStreams(t *testing.T, c *client, round int) error {
	const (
		open  = 96                     // have sent something when the kill comes
		early = 32                     // have not
		delay = 500 * time.Millisecond // of the early ones, in the engine
		pace  = 15 * time.Millisecond
		after = 50 * time.Millisecond  // from then on nothing goes to the dead one
		bar   = 150 * time.Millisecond // p99, from the kill to a survivor's first byte
	)
	victim := fmt.Sprintf("r%d", round%4)
	before, _ := remote.FindReplica(c.waitFor(allReady), victim)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var begun, ended atomic.Int32
	var long, waiting calls
	for i := range open {
		long.wg.Go(func() {
			long.add(c.stream(ctx, fmt.Sprintf("open-%d-%d", round, i), "go on", 2000, func() { begun.Add(1) }))
			ended.Add(1)
		})
	}
	await(t, time.Minute, "all streams have begun", func() bool { return begun.Load() == open })
	for i := range early {
		waiting.wg.Go(func() {
			waiting.add(c.stream(ctx, fmt.Sprintf("early-%d-%d", round, i), fmt.Sprintf("[[sim:delay %s]] hello", delay), 2, nil))
		})
	}
	c.poll("all requests are placed", func(s control.Status) bool { return s.Totals.Held >= open+early })
	newOnes, stop := context.WithCancel(ctx)
	arriving := c.trickle(newOnes, pace, fmt.Sprintf("new-%d", round))
	pause(time.Duration(rand.IntN(100)) * time.Millisecond)
	killed := kill(t, before.PID)

	moved := movedWaits(t, waiting.wait(), killed.Add(delay))
	c.readyAgain(before)
	t.Logf("round %d: %s serves again %s after the kill", round, victim, time.Since(killed).Round(time.Millisecond))
	stop()
	late := failedOver(t, arriving.wait(), victim, killed.Add(after))
	cancel()
	cut := cutStreams(t, long.wait(), victim)
	c.waitFor(func(s control.Status) bool { return s.Totals.Held == 0 })
	t.Logf("round %d: %d open streams cut; %d moved, first byte p50 %s p99 %s after the kill; %d new ones tried the dead replica",
		round, cut, len(moved), quantile(moved, 0.5), quantile(moved, 0.99), late)
	if cut > open/4+2 || len(moved) == 0 {
		t.Errorf("%d streams cut, %d requests moved of %d", cut, len(moved), early)
	}
	if p99 := quantile(moved, 0.99); p99 > bar || late > 0 {
		return fmt.Errorf("first byte of a moved request after %s (p99, bar %s), %d new requests to the dead replica", p99, bar, late)
	}
	return nil
}

// movedWaits are the times from a moment to the first byte of what was served
// again elsewhere; all must be complete.
func movedWaits(t *testing.T, all []call, from time.Time) (moved []time.Duration) {
	t.Helper()
	for _, one := range all {
		if !one.complete() {
			t.Errorf("a request that had no byte yet failed: %s", one)
		}
		if one.reason == "failover" {
			moved = append(moved, one.first.Sub(from))
		}
	}
	return moved
}

// failedOver counts the requests that began after a moment and were sent to the
// dead replica first. All must be complete, but for those that the victim had
// begun to answer: they came just before it died.
func failedOver(t *testing.T, all []call, victim string, after time.Time) (n int) {
	t.Helper()
	for _, one := range all {
		answered := one.replica == victim && one.code == 200 && !one.first.IsZero() && one.first.Before(after)
		if !one.complete() && !answered {
			t.Errorf("a new request failed: %s", one)
		}
		if one.began.After(after) && one.reason == "failover" {
			n++
		}
	}
	return n
}

// cutStreams counts the streams that broke with the victim; no other may break,
// and none may look complete.
func cutStreams(t *testing.T, all []call, victim string) (cut int) {
	t.Helper()
	for _, one := range all {
		if one.complete() || errors.Is(one.err, context.Canceled) {
			continue
		}
		cut++
		if one.replica != victim || one.err == nil && !strings.Contains(one.body, `"error"`) {
			t.Errorf("cut without need, or looks complete: %s", one)
		}
	}
	return cut
}

// Figure 2: the death of an engine is known within 20 ms.
func TestFigureDeathIsNoticed(t *testing.T) {
	w := start(t, append([]string{"--dp", "2"}, quick...)...)
	log := w.watchEvents()
	const bar = 20 * time.Millisecond
	for range rounds(4) {
		timely(t, func() error {
			before, _ := remote.FindReplica(w.waitFor(allReady), "r1")
			killed := kill(t, before.PID)
			w.readyAgain(before)
			e, ok := log.find(killed, leaves("r1", control.StateReady))
			if !ok {
				t.Fatal("no event tells of the death")
			}
			t.Logf("noticed after %s", e.At.Sub(killed))
			if took := e.At.Sub(killed); took > bar {
				return fmt.Errorf("noticed after %s, bar %s", took, bar)
			}
			return nil
		})
	}
}

// Figure 3: a killed engine is started again in a second or so, requests go
// there as soon as it is ready, and its conversations spread evenly meanwhile.
func TestFigureRestart(t *testing.T) {
	w := start(t, append([]string{"--dp", "4"}, quick...)...)
	log := w.watchEvents()
	const sessions = 48
	homes := func(turn string) map[string][]int {
		served := map[string][]int{}
		for i := range sessions {
			a := w.chat(fmt.Sprintf("restart-%d", i), turn, false, 2)
			if a.code != 200 {
				t.Fatalf("session %d: %d %v %s", i, a.code, a.err, a.body)
			}
			served[a.replica] = append(served[a.replica], i)
		}
		return served
	}
	first := homes("first")
	victim, _ := remote.FindReplica(w.waitFor(allReady), "r2")
	killed := kill(t, victim.PID)
	second := homes("second")
	least, most := sessions, 0
	for _, id := range []string{"r0", "r1", "r3"} {
		grown := len(second[id]) - len(first[id])
		least, most = min(least, grown), max(most, grown)
	}
	t.Logf("homes before %d of r2; the others took between %d and %d of them", len(first["r2"]), least, most)
	if least < 1 || most > 2*least {
		t.Errorf("conversations of r2 went elsewhere unevenly: before %v, after %v", first, second)
	}
	w.readyAgain(victim)
	ready := time.Now()
	routed := await(t, 10*time.Second, "a new conversation on r2", func() bool {
		return w.chat(fmt.Sprintf("new-%d", time.Now().UnixNano()), "new", false, 2).replica == "r2"
	})
	started, ok := log.find(killed, enters("r2", control.StateStarting))
	if !ok {
		t.Fatal("no event tells of the new start")
	}
	t.Logf("started again %s after the kill, ready after %s, serving %s later", started.At.Sub(killed), ready.Sub(killed), routed)
	if took := started.At.Sub(killed); took > 1500*time.Millisecond {
		t.Errorf("started again only %s after the kill", took)
	}
	if routed > time.Second {
		t.Errorf("the ready replica got its first request only after %s", routed)
	}
}

// Figure 8: an engine that dies again and again is given up after five starts,
// at once when the cause cannot pass; those beside it do not notice.
func TestFigureCrashLoop(t *testing.T) {
	w := start(t, append([]string{"--dp", "4"}, quick...)...)
	c := w.newClient()
	quiet := steadyWaits(t, c, 2*time.Second, "quiet")
	log := w.watchEvents()
	looping, stop := context.WithCancel(t.Context())
	arriving := c.trickle(looping, 20*time.Millisecond, "loop")
	starts := 0
	began := time.Now()
	for generation := uint64(0); ; starts++ {
		r, _ := remote.FindReplica(w.waitFor(func(s control.Status) bool {
			r, _ := remote.FindReplica(s, "r3")
			return r.State == control.StateParked || r.PID != 0 && r.Generation > generation
		}), "r3")
		if r.State == control.StateParked {
			t.Logf("parked after %d starts and %s: %s", starts, time.Since(began).Round(time.Second), r.Note)
			break
		}
		generation = r.Generation
		kill(t, r.PID)
	}
	stop()
	if starts != 5 {
		t.Errorf("%d starts before it was parked, want 5", starts)
	}
	var loud []time.Duration
	for _, one := range arriving.wait() {
		if !one.complete() && one.replica != "r3" {
			t.Errorf("a request beside the crash loop failed: %s", one)
		}
		if one.replica != "r3" && one.reason != "failover" {
			loud = append(loud, one.wait())
		}
	}
	before, during := quantile(quiet, 0.99), quantile(loud, 0.99)
	t.Logf("first byte p99 %s before, %s during the crash loop (%d requests)", before, during, len(loud))
	// On two cores a start of a process costs more than any rule could save.
	if during > before+before/20+30*time.Millisecond {
		t.Errorf("first byte p99 %s during the crash loop, %s before", during, before)
	}
	if _, ok := log.find(began, func(e events.Event) bool { return e.Kind == events.KindState && e.Replica != "r3" && e.Replica != "" }); ok {
		t.Error("another replica changed its state")
	}

	home := newHome(t)
	w = launch(t, home, "--demo", "--demo-sessions", "0", "--listen", "127.0.0.1:0", "--dp", "1", "--", "--max-model-len", "9000000")
	r, _ := remote.FindReplica(w.waitFor(func(s control.Status) bool { return s.Count(control.StateParked) == 1 }), "r0")
	t.Logf("permanent cause: %s", r.Note)
	if r.Generation > 2 || r.Diagnosis == nil || !strings.Contains(r.Diagnosis.Cause+r.Diagnosis.Line, "9000000") {
		t.Errorf("parked in generation %d: %+v", r.Generation, r.Diagnosis)
	}
}

// steadyWaits measures the first bytes of a steady trickle.
func steadyWaits(t *testing.T, c *client, span time.Duration, name string) []time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	arriving := c.trickle(ctx, 20*time.Millisecond, name)
	pause(span)
	cancel()
	var waits []time.Duration
	for _, one := range arriving.wait() {
		if !one.complete() {
			t.Errorf("a request of a quiet warden failed: %s", one)
		}
		waits = append(waits, one.wait())
	}
	return waits
}
