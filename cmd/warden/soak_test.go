//go:build soak

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lm-warden/warden/cmd/internal/remote"
	"github.com/lm-warden/warden/supervisor/control"
)

var soakFor = flag.Duration("for", 20*time.Minute, "how long TestSoak goes on")

const (
	soakKillEvery = 30 * time.Second
	soakClients   = 48
	soakReplicas  = 4
	// logFlood fills a log file of 50 MB with its 100-byte lines in a quarter of
	// an hour.
	logFlood = 600
)

// soak is one long run: what was done to it, and what its clients saw.
type soak struct {
	*client
	t *testing.T

	mu     sync.Mutex
	kills  map[string][]time.Time // by replica
	frozen string                 // replica that is stopped
	tally  struct{ complete, left, cut, failover, wrong int }
	moved  []time.Duration
}

// Figure 21: for a long time an engine, its child or its shim is killed every
// 30 s, a tenth of the clients leave early, warden is upgraded twice and an
// engine freezes. The figures 1, 4, 10 and 12 hold to the end.
func TestSoak(t *testing.T) {
	w := start(t, "--dp", fmt.Sprint(soakReplicas), "--max-num-seqs", "64", "--",
		"--sim-load", "1s", "--sim-speed", "0.7", "--sim-tree", "setsid", "--sim-fault", fmt.Sprintf("log-flood=%d", logFlood))
	s := &soak{client: w.newClient(), t: t, kills: map[string][]time.Time{}}
	ctx, stop := context.WithTimeout(t.Context(), *soakFor)
	defer stop()
	s.load(ctx, 20*time.Second) // the heap finds its size
	s.http.CloseIdleConnections()
	before := w.usageAtRest()

	var troubles sync.WaitGroup
	troubles.Go(func() { s.killer(ctx) })
	troubles.Go(func() { s.upgrader(ctx) })
	troubles.Go(func() { s.freezer(ctx) })
	s.load(ctx, *soakFor)
	troubles.Wait()

	s.waitWithin(2*time.Minute, allReady)
	s.poll("nothing is held", func(now control.Status) bool { return now.Totals.Held == 0 })
	s.report()
	s.http.CloseIdleConnections()
	w.checkUsage(before)
	s.checkLogs()
	if out, code := w.runCommand("down"); code != 0 {
		t.Errorf("down: %d\n%s", code, out)
	}
	if err := goneWithin(w.home, orphanLimit); err != nil {
		t.Error(err)
	}
}

// load keeps all clients busy for some time.
func (s *soak) load(ctx context.Context, span time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, span)
	defer cancel()
	var clients sync.WaitGroup
	for i := range soakClients {
		clients.Go(func() {
			for turn := 0; ctx.Err() == nil; turn++ {
				s.judge(s.turn(fmt.Sprintf("soak-%d-%d", i, turn/20)))
			}
		})
	}
	clients.Wait()
}

// turn sends one request; one client in ten leaves after the first byte.
func (s *soak) turn(session string) call {
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	begin := func() {}
	if rand.IntN(10) == 0 {
		begin = cancel
	}
	return s.stream(ctx, session, "one more turn of a long soak", 20+rand.IntN(100), begin)
}

// judge counts a request, and complains of one that failed without need: only
// what had begun on a replica that was killed then may be cut.
func (s *soak) judge(one call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.reason == "failover" && !one.first.IsZero() && s.frozen == "" {
		s.tally.failover++ // what met the frozen engine waited for that
		for _, at := range s.allKills() {
			if at.After(one.began) && at.Before(one.first) {
				s.moved = append(s.moved, one.first.Sub(at))
			}
		}
	}
	switch {
	case one.complete() && oneAnswer(one.body):
		s.tally.complete++
	case errors.Is(one.err, context.Canceled):
		s.tally.left++
	case !one.first.IsZero() && s.killedNear(one.replica, one.ended): // and it does not look complete
		s.tally.cut++
	default:
		s.tally.wrong++
		s.t.Errorf("failed or wrong without a kill: %s", one)
	}
}

func (s *soak) allKills() []time.Time {
	var all []time.Time
	for _, times := range s.kills {
		all = append(all, times...)
	}
	return all
}

// killedNear says whether a replica was killed within the 2 s before a moment.
func (s *soak) killedNear(replica string, ended time.Time) bool {
	for _, at := range s.kills[replica] {
		if d := ended.Sub(at); d > 0 && d < 2*time.Second {
			return true
		}
	}
	return false
}

// oneAnswer says whether all events are of one answer: a request that two
// engines answered would show two ids.
func oneAnswer(body string) bool {
	const key = `"id":"`
	_, rest, found := strings.Cut(body, key)
	id, _, _ := strings.Cut(rest, `"`)
	return found && strings.Count(body, key) == strings.Count(body, key+id+`"`)
}

// killer kills something of a random replica every 30 s, and acts as the person
// who starts a replica again that warden gave up: no engine dies so often.
func (s *soak) killer(ctx context.Context) {
	tick := time.NewTicker(min(soakKillEvery, *soakFor/10))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now, err := s.client.running.client.Status(ctx)
		if err != nil {
			continue // between two wardens
		}
		for _, r := range now.Replicas {
			if r.State == control.StateParked {
				s.runCommand("restart", r.ID)
			}
		}
		r := now.Replicas[rand.IntN(len(now.Replicas))]
		s.mu.Lock()
		spare := r.ID == s.frozen || r.State != control.StateReady || r.PID == 0
		if !spare {
			s.kills[r.ID] = append(s.kills[r.ID], time.Now())
		}
		s.mu.Unlock()
		if spare {
			continue
		}
		victim, what := r.PID, "engine"
		switch rand.IntN(3) {
		case 0:
			victim, what = relative(s.t, s.home, "__shim", "/"+r.ID), "shim"
		case 1:
			victim, what = coreOf(s.t, s.home, r.PID), "EngineCore"
		}
		s.t.Logf("kill %s of %s (generation %d)", what, r.ID, r.Generation)
		_ = syscall.Kill(victim, syscall.SIGKILL) // it may have ended by itself
	}
}

func (s *soak) upgrader(ctx context.Context) {
	tick := time.NewTicker(*soakFor * 3 / 10)
	defer tick.Stop()
	for range 2 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		out, code := s.runCommand("upgrade")
		s.t.Logf("upgrade: %s", strings.TrimSpace(out))
		if code != 0 {
			s.t.Errorf("upgrade: exit code %d\n%s", code, out)
		}
	}
}

// freezer stops an engine for 60 s: nothing may be restarted for it.
func (s *soak) freezer(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(*soakFor / 5):
	}
	frozen := min(time.Minute, *soakFor/10)
	freeze := func(id string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.frozen = id
	}
	freeze("r0")
	defer freeze("")
	before := s.poll("r0 is ready", func(now control.Status) bool {
		r, _ := remote.FindReplica(now, "r0")
		return r.State == control.StateReady && r.PID != 0
	})
	r, _ := remote.FindReplica(before, "r0")
	if err := syscall.Kill(r.PID, syscall.SIGSTOP); err != nil {
		s.t.Error(err)
		return
	}
	pause(frozen)
	if err := syscall.Kill(r.PID, syscall.SIGCONT); err != nil {
		s.t.Error(err)
	}
	pause(2 * time.Second) // what waited there is answered
	after := s.poll("r0 is ready again", func(now control.Status) bool {
		r, _ := remote.FindReplica(now, "r0")
		return r.State == control.StateReady
	})
	if diff := cmp.Diff(identities(before)["r0"], identities(after)["r0"]); diff != "" {
		s.t.Errorf("r0 frozen for %s: engine before (-) and after (+):\n%s", frozen, diff)
	}
}

func (s *soak) report() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.t.Logf("%+v after %d kills; first byte of moved requests p50 %s p99 %s after the kill",
		s.tally, len(s.allKills()), quantile(s.moved, 0.5), quantile(s.moved, 0.99))
	if p50 := quantile(s.moved, 0.5); p50 > 150*time.Millisecond { // figure 1's bar, for a machine that is busy with all this
		s.t.Errorf("moved requests got their first byte %s after the kill", p50)
	}
	if s.tally.complete == 0 || s.tally.left == 0 || len(s.allKills()) == 0 {
		s.t.Errorf("nothing was proven: %+v, %d kills", s.tally, len(s.allKills()))
	}
}

// checkLogs holds each replica's log to its bound; over the full time it must
// have been rotated.
func (s *soak) checkLogs() {
	const files, size = 5, 50_000_000 + 10_000
	logs, _ := filepath.Glob(filepath.Join(s.home, "warden", "default", "logs", "*", "engine.log*"))
	rotated := 0
	for _, log := range logs {
		info, err := os.Stat(log)
		if err != nil {
			s.t.Error(err)
			continue
		}
		if info.Size() > size {
			s.t.Errorf("%s has %d bytes", log, info.Size())
		}
		if strings.HasSuffix(log, ".1") {
			rotated++
		}
	}
	s.t.Logf("%d log files, %d rotated", len(logs), rotated)
	if len(logs) < soakReplicas || len(logs) > soakReplicas*files || *soakFor >= 20*time.Minute && rotated == 0 {
		s.t.Errorf("%d log files, %d rotated", len(logs), rotated)
	}
}
