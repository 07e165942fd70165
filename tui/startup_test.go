package tui

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lm-warden/warden/supervisor/control"
	"github.com/lm-warden/warden/tui/cell"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s (run with -update after a wanted change):\n%s", name, diff)
	}
}

// half is a start of which one replica is ready.
func half() control.Status {
	s := status(4, control.StateStarting)
	s.State = control.DaemonStarting
	r := s.Replicas
	r[0].State, r[0].StartedAt, r[0].ReadyAt = control.StateReady, t0.Add(-50*time.Second), t0.Add(-12*time.Second)
	r[1].Phase, r[1].EstimateSeconds = &control.Phase{Name: "graphs", Done: 41, Total: 51}, ptr(40.0)
	r[2].Phase, r[2].EstimateSeconds = &control.Phase{Name: "compile", Detail: "loaded from cache"}, ptr(51.0)
	r[3].Phase, r[3].EstimateSeconds = &control.Phase{Name: "weights", Detail: "shard 2 of 3", Done: 2, Total: 3}, ptr(40.0)
	return s
}

func TestStartupPictures(t *testing.T) {
	failing := change(change(half(), 1, func(r *control.Replica) {
		r.State, r.NextRetry, r.Diagnosis = control.StateBackoff, t0.Add(8*time.Second), &control.Diagnosis{Cause: "CUDA out of memory"}
	}), 2, func(r *control.Replica) {
		r.State, r.Note = control.StateParked, "no such model"
	})
	simulated := half()
	simulated.Simulated = true
	cpu := half()
	cpu.GPUs = nil
	for i := range cpu.Replicas {
		cpu.Replicas[i].GPUs, cpu.Replicas[i].CPUs = nil, []int{2 * i, 2*i + 1}
	}
	many := status(30, control.StateStarting)
	many.Replicas[3].State = control.StateReady
	for name, s := range map[string]control.Status{"half": half(), "failing": failing, "simulated": simulated, "cpu": cpu, "many": many, "none": {Now: t0}} {
		for _, w := range []int{80, 60, 120} {
			lines := startupLines(s, furthest{}, t0, w, 24, Theme{})
			for _, l := range lines {
				if cell.Width(l) > w {
					t.Errorf("%s at %d: %d cells: %q", name, w, cell.Width(l), l)
				}
			}
			if len(lines) > 24 {
				t.Errorf("%s: %d lines on a terminal of 24", name, len(lines))
			}
			if w == 80 {
				golden(t, "startup-"+name, strings.Join(lines, "\n")+"\n")
			}
		}
	}
	ready := status(4, control.StateReady)
	for i := range ready.Replicas {
		ready.Replicas[i].Engine = &control.Engine{KVCapacityTokens: 40000}
	}
	ready.Models[0].TypicalSessions = 3.3
	ready.Models[0].KVOffload = &control.KVOffload{Reason: "off: the model has sliding attention layers"}
	ready.Models[0].Settings = []control.Setting{{Flag: "--max-num-seqs", Value: "32", By: control.ByWarden, Reason: "about 3 typical sessions fit the KV cache at once"}}
	golden(t, "startup-ready", strings.Join(readyLines(ready, "Ctrl-C", Theme{}), "\n")+"\n")
	ready.Simulated = true
	golden(t, "startup-ready-simulated", strings.Join(readyLines(ready, "`warden down`", Theme{}), "\n")+"\n")
}

func TestProgressNeverGoesBack(t *testing.T) {
	seen := furthest{}
	steps := []struct {
		generation uint64
		phase      *control.Phase
		want       string
	}{
		{1, &control.Phase{Name: "weights", Done: 2, Total: 3}, "weights 2"},
		{1, &control.Phase{Name: "weights", Done: 1, Total: 3}, "weights 2"},
		{1, &control.Phase{Name: "spawn"}, "weights 2"},
		{1, &control.Phase{Name: "unheard of"}, "weights 2"},
		{1, &control.Phase{Name: "compile"}, "compile 0"},
		{1, &control.Phase{Name: "weights", Done: 3, Total: 3}, "compile 0"},
		{1, &control.Phase{Name: "graphs", Done: 1, Total: 9}, "graphs 1"},
		{2, &control.Phase{Name: "weights", Done: 1, Total: 3}, "weights 1"}, // a new start begins anew
		{2, nil, "none"},
	}
	for i, st := range steps {
		r := seen.see(control.Replica{ID: "r0", Generation: st.generation, Phase: st.phase})
		got := "none"
		if r.Phase != nil {
			got = r.Phase.Name + " " + cell.Count(float64(r.Phase.Done))
		}
		if got != st.want {
			t.Errorf("step %d: %s, want %s", i, got, st.want)
		}
	}
}

func TestTimeLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		s    control.Status
		want time.Duration
		ok   bool
	}{
		"the slowest counts":      {half(), 20 * time.Second, true},
		"one without an estimate": {change(half(), 1, func(r *control.Replica) { r.EstimateSeconds = nil }), 0, false},
		"one that is late":        {change(half(), 1, func(r *control.Replica) { r.EstimateSeconds = ptr(3.0) }), 0, false},
		"one in backoff":          {change(half(), 1, func(r *control.Replica) { r.State = control.StateBackoff }), 0, false},
		"all ready":               {status(2, control.StateReady), 0, false},
	} {
		if got, ok := timeLeft(tt.s, t0); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %s %t", name, got, ok)
		}
	}
}

func TestStarted(t *testing.T) {
	for name, tt := range map[string]struct {
		states string
		done   bool
		fails  bool
	}{
		"nobody":                {"", false, false},
		"starting":              {"ready starting", false, false},
		"all":                   {"ready ready", true, false},
		"one waits for a GPU":   {"ready waiting_gpu", false, false},
		"one failed for now":    {"ready backoff", true, false},
		"one gave up":           {"ready parked", true, false},
		"none ready, one tries": {"backoff parked", false, false},
		"all gave up":           {"parked stuck", false, true},
	} {
		s := control.Status{LogDir: "/logs"}
		for i, state := range strings.Fields(tt.states) {
			s.Replicas = append(s.Replicas, control.Replica{ID: "r" + cell.Count(float64(i)), State: state, Diagnosis: &control.Diagnosis{Cause: "out of memory", Fix: "less"}})
		}
		done, err := Started(s)
		var failed *StartError
		if done != tt.done || errors.As(err, &failed) != tt.fails {
			t.Errorf("%s: %t, %v", name, done, err)
		}
		if tt.fails && (err.Error() != "no replica became ready: r0, r1: out of memory" || failed.Hint() != "less") {
			t.Errorf("%s: %q, hint %q", name, err, failed.Hint())
		}
	}
	if e := (&StartError{Replicas: []string{"r0"}, LogDir: "/logs"}); !strings.Contains(e.Hint(), "/logs") {
		t.Errorf("hint %q", e.Hint())
	}
	if e := (&StartError{Replicas: []string{"r0"}}); !strings.Contains(e.Hint(), "warden logs r0") {
		t.Errorf("hint %q", e.Hint())
	}
}

// TestPlainLines plays a start and compares what a journal would hold.
func TestPlainLines(t *testing.T) {
	var text, asJSON bytes.Buffer
	writers := []*plainWriter{newPlain(&text, false), newPlain(&asJSON, true)}
	s := status(2, control.StateStarting)
	play := func(after time.Duration, how func(*control.Replica)) {
		s = change(s, 0, how)
		for _, w := range writers {
			w.write(t.Context(), s, t0.Add(after))
		}
	}
	phase := func(p control.Phase) func(*control.Replica) { return func(r *control.Replica) { r.Phase = &p } }
	play(0, phase(control.Phase{Name: "spawn"}))
	play(time.Second, phase(control.Phase{Name: "weights", Done: 1, Total: 3}))                            // too soon
	play(11*time.Second, phase(control.Phase{Name: "weights", Detail: "shard 2 of 3", Done: 2, Total: 3})) // told
	play(22*time.Second, phase(control.Phase{Name: "weights", Done: 3, Total: 3}))                         // the same phase
	play(23*time.Second, func(r *control.Replica) {                                                        // a state is told at once
		r.State, r.Phase, r.Diagnosis, r.NextRetry = control.StateBackoff, nil, &control.Diagnosis{Cause: "CUDA out of memory", Fix: "--max-model-len 16384"}, t0.Add(31*time.Second)
	})
	play(24*time.Second, func(r *control.Replica) { r.State, r.Generation, r.Diagnosis = control.StateStarting, 2, nil })
	play(25*time.Second, func(r *control.Replica) {
		r.State, r.ReadyAt = control.StateReady, t0.Add(25*time.Second)
		r.StartedAt = t0
	})
	play(26*time.Second, func(r *control.Replica) { r.State, r.Note = control.StateParked, "gave up" })
	play(27*time.Second, func(r *control.Replica) { r.State, r.Note = control.StateStopping, "" })
	for _, w := range writers {
		w.ready(t.Context(), s)
	}
	golden(t, "plain", text.String())
	n := 0
	for line := range strings.Lines(asJSON.String()) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["msg"] == "" || v["time"] == nil {
			t.Errorf("%q: %v", line, err)
		}
		n++
	}
	if want := strings.Count(text.String(), "\n"); n != want {
		t.Errorf("%d JSON lines, %d of text", n, want)
	}
	if strings.Contains(text.String(), "\x1b") {
		t.Error("plain lines hold escape bytes")
	}
}

// progress runs Progress in fake time while play tells what the daemon says.
func progress(t *testing.T, mode ProgressMode, play func(*fakeSource)) (string, error) {
	t.Helper()
	var out bytes.Buffer
	var err error
	synctest.Test(t, func(t *testing.T) {
		src := newSource()
		src.logs = []control.LogLine{{Replica: "r0", Text: "\x1b[31mlast\x1b[0m words"}}
		done := make(chan error, 1)
		go func() {
			done <- Progress(t.Context(), src, &out, ProgressOptions{Mode: mode, clock: func() time.Time { return t0 }})
		}()
		play(src)
		err = <-done
	})
	return out.String(), err
}

func TestProgress(t *testing.T) {
	allGaveUp := change(status(1, control.StateParked), 0, func(r *control.Replica) { r.Diagnosis = &control.Diagnosis{Cause: "no such model"} })
	allGaveUp.LogDir = "/logs"
	start := func(src *fakeSource) { src.say(half()) }
	for name, tt := range map[string]struct {
		mode    ProgressMode
		play    func(*fakeSource)
		err     error
		shows   []string
		without []string
	}{
		"tty": {ProgressTTY, func(src *fakeSource) { start(src); src.say(status(4, control.StateReady)) }, nil,
			[]string{"graphs    41 of 51", "1 of 4 ready, already serving on http://127.0.0.1:8000", "\x1b[6A", "export ANTHROPIC_BASE_URL=http://127.0.0.1:8000", "stop: Ctrl-C"}, nil},
		"plain": {ProgressPlain, func(src *fakeSource) { start(src); src.say(status(4, control.StateReady)) }, nil,
			[]string{`level=INFO msg="replica starting" replica=r3 phase=weights detail="shard 2 of 3" done=2 total=3`, `msg="warden serving"`}, []string{"\x1b"}},
		"json":  {ProgressJSON, func(src *fakeSource) { src.say(status(1, control.StateReady)) }, nil, []string{`"msg":"warden serving"`}, []string{"\x1b"}},
		"quiet": {ProgressQuiet, func(src *fakeSource) { src.say(status(1, control.StateReady)) }, nil, nil, []string{"ready"}},
		"all gave up": {ProgressTTY, func(src *fakeSource) { src.say(allGaveUp) }, &StartError{},
			[]string{"gave up: no such model", "last lines of r0:\n  last words\n", "logs: /logs"}, []string{"R: try again", "[31m"}},
		"all gave up, JSON stays JSON": {ProgressJSON, func(src *fakeSource) { src.say(allGaveUp) }, &StartError{}, nil, []string{"last words"}},
		"the daemon ends":              {ProgressPlain, func(src *fakeSource) { start(src); src.hangUp(nil) }, ErrDaemonEnded, nil, nil},
		"the connection breaks":        {ProgressPlain, func(src *fakeSource) { start(src); src.hangUp(errHungUp) }, errHungUp, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := progress(t, tt.mode, tt.play)
			var failed *StartError
			if _, wantFailed := tt.err.(*StartError); wantFailed {
				if !errors.As(err, &failed) || len(failed.Log) != 1 {
					t.Errorf("got %v", err)
				}
			} else if !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			for _, w := range tt.shows {
				if !strings.Contains(got, w) {
					t.Errorf("%q is missing in\n%q", w, got)
				}
			}
			for _, w := range tt.without {
				if strings.Contains(got, w) {
					t.Errorf("%q must not be in\n%q", w, got)
				}
			}
		})
	}
}

func TestProgressRedrawsTheClock(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		src := newSource()
		done := make(chan error, 1)
		go func() { done <- Progress(ctx, src, &out, ProgressOptions{Mode: ProgressTTY}) }()
		src.say(half())
		<-time.After(3500 * time.Millisecond) // fake time
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	for _, clock := range []string{"0:31 / ~0:40", "0:32 / ~0:40", "0:34 / ~0:40"} {
		if !strings.Contains(out.String(), clock) {
			t.Errorf("%s is missing in\n%s", clock, out.String())
		}
	}
}
