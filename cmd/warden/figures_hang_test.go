package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/keep"
	shims "github.com/lm-warden/warden/supervisor/launch"
	"github.com/lm-warden/warden/supervisor/machine"
	"github.com/lm-warden/warden/supervisor/vllm"
)

// hurry is how many times faster than in production TestFigureHang decides.
const hurry = 60

// Figure 7 with a real process, 60 times as fast: a stall of "60 s" restarts
// nothing, an engine that hangs behind a good /health is restarted after "180 to
// 300 s".
func TestFigureHang(t *testing.T) {
	t.Parallel() // it waits most of its time
	e := superviseOne(t)
	first := e.ready(1)
	for _, kind := range []string{"engine", "all", "health"} {
		e.stall(kind)
		pause(60 * time.Second / hurry)
		e.stall("none")
		if r := e.ready(1); r.Generation != first.Generation {
			t.Fatalf("stall=%s for 60 s / %d: restarted", kind, hurry)
		}
	}
	began := e.stall("engine")
	r := e.ready(first.Generation + 1)
	took := r.StartedAt.Sub(began) * hurry
	t.Logf("a hang behind a good /health: a new start after %s / %d", took.Round(time.Second), hurry)
	if took < 180*time.Second || took > 300*time.Second+hurry*500*time.Millisecond { // the tree must also end
		t.Errorf("restarted after %s / %d, want 180 to 300 s", took, hurry)
	}
}

// supervised is one simulated engine under a supervisor of its own: the built
// program decides as slowly as production must.
type supervised struct {
	t        *testing.T
	socket   string
	s        *keep.Supervisor
	changes  chan struct{}             // holds a token after a change
	answered atomic.Pointer[time.Time] // the last byte of the one request that the engine holds
}

func superviseOne(t *testing.T) *supervised {
	t.Helper()
	home := newHome(t)
	e := &supervised{t: t, socket: filepath.Join(home, "run", "r0", "engine.sock"), changes: make(chan struct{}, 1)}
	e.answered.Store(new(time.Now()))
	engine := vllm.New(vllm.Install{Argv: []string{binary, "__simengine"}, Version: vllm.NewestTested, Device: supervisor.DeviceSimulated}, vllm.Options{})
	var err error
	e.s, err = keep.New([]supervisor.Spec{{
		ID: "r0", Model: "m", Repo: "m", ServedNames: []string{"m"}, TP: 1, Device: supervisor.DeviceSimulated,
		Address: "unix:" + e.socket, Args: []string{"--sim-load", "100ms"}, MaxNumSeqs: 8, Engine: engine,
	}}, keep.Options{
		Launcher: shims.New(shims.Options{
			Argv: func() []string { return []string{binary, "__shim"} }, RuntimeDir: filepath.Join(home, "run"), LogDir: filepath.Join(home, "log"), LockDir: filepath.Join(home, "locks"),
		}),
		Work: func(supervisor.ReplicaID) supervisor.Work {
			return supervisor.Work{Held: 1, LastByte: *e.answered.Load()}
		},
		Timing: keep.Timing{
			Timing:     machine.Timing{BackoffBase: time.Millisecond},
			ProbeReady: 50 * time.Millisecond, StallAfter: 180 * time.Second / hurry, Canary: 60 * time.Second / hurry,
		},
		Changed: func(supervisor.Replica) {
			select {
			case e.changes <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- e.s.Run(t.Context()) }()
	t.Cleanup(func() {
		e.s.KillAll()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := goneWithin(home, orphanLimit); err != nil {
			t.Error(err)
		}
	})
	return e
}

// ready waits until the engine serves in that generation or a later one.
func (e *supervised) ready(generation uint64) supervisor.Replica {
	e.t.Helper()
	limit := time.After(30 * time.Second)
	for {
		r := e.s.Snapshot()[0]
		if r.State == supervisor.Ready && r.Generation >= generation {
			return r
		}
		select {
		case <-e.changes:
		case <-limit:
			e.t.Fatalf("not ready in generation %d: %+v", generation, r)
		}
	}
}

// stall sets the engine's fault, or ends it with "none"; what it holds gets a
// byte in this moment.
func (e *supervised) stall(value string) time.Time {
	e.t.Helper()
	content, err := json.Marshal(map[string]string{"stall": value})
	if err != nil {
		e.t.Fatal(err)
	}
	resp, err := overSocket(e.socket).Post("http://engine/sim/fault", "application/json", bytes.NewReader(content))
	if err != nil {
		e.t.Fatal(err)
	}
	resp.Body.Close()
	now := time.Now()
	e.answered.Store(&now)
	return now
}
