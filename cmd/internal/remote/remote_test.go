package remote

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lm-warden/warden/cmd/internal/exit"
	"github.com/lm-warden/warden/supervisor/control"
)

func TestFindModel(t *testing.T) {
	one := control.Status{Models: []control.Model{{Alias: "a", Repo: "org/a"}}}
	two := control.Status{Models: append([]control.Model{{Alias: "b", Repo: "org/b"}}, one.Models...)}
	tests := []struct {
		status control.Status
		name   string
		want   string
		code   int
		hint   string
	}{
		{one, "", "a", exit.OK, ""},
		{two, "a", "a", exit.OK, ""},
		{two, "org/b", "b", exit.OK, ""},
		{two, "", "", exit.Usage, "the served models are b, a"},
		{one, "c", "", exit.Failed, "the only served model is a"},
	}
	for _, tt := range tests {
		m, err := FindModel(tt.status, tt.name)
		if m.Alias != tt.want || exit.CodeOf(err) != tt.code || exit.HintOf(err) != tt.hint {
			t.Errorf("%q of %d: %q, %v (code %d, hint %q)", tt.name, len(tt.status.Models), m.Alias, err, exit.CodeOf(err), exit.HintOf(err))
		}
	}
}

func TestReplicas(t *testing.T) {
	status := control.Status{Replicas: []control.Replica{{ID: "r0"}, {ID: "r1"}}}
	for _, tt := range []struct {
		names, want []string
		hint        string
	}{
		{nil, []string{"r0", "r1"}, ""},
		{[]string{"r1"}, []string{"r1"}, ""},
		{[]string{"r1", "r9"}, nil, "the replicas are r0, r1"},
	} {
		got, err := Replicas(status, tt.names)
		if !slices.Equal(got, tt.want) || (err != nil) != (tt.hint != "") || exit.HintOf(err) != tt.hint {
			t.Errorf("%q: %q, %v (hint %q)", tt.names, got, err, exit.HintOf(err))
		}
	}
}

func TestActionDone(t *testing.T) {
	tests := []struct {
		action     control.ReplicaAction
		state      string
		held       int
		generation uint64
		done       bool
	}{
		{control.Drain, control.StateReady, 0, 3, false},
		{control.Drain, control.StateDraining, 2, 3, false},
		{control.Drain, control.StateDraining, 0, 3, true},
		{control.Drain, control.StateStopped, 0, 3, true},
		{control.Restart, control.StateReady, 0, 3, false}, // not begun
		{control.Restart, control.StateStarting, 0, 4, false},
		{control.Restart, control.StateReady, 0, 4, true},
		{control.Kill, control.StateReady, 0, 4, true},
		{control.Retry, control.StateBackoff, 0, 3, false},
		{control.Undrain, control.StateReady, 5, 3, true},
	}
	for _, tt := range tests {
		r := control.Replica{ID: "r0", State: tt.state, Held: tt.held, Generation: tt.generation}
		if done, err := actionDone(r, tt.action, 3); done != tt.done || err != nil {
			t.Errorf("%s, %s with %d held in generation %d: %v, %v", tt.action, tt.state, tt.held, tt.generation, done, err)
		}
	}
	for _, state := range []string{control.StateParked, control.StateStuck} {
		if done, err := actionDone(control.Replica{ID: "r0", State: state}, control.Restart, 3); !done || exit.CodeOf(err) != exit.Start {
			t.Errorf("%s: %v, %v", state, done, err)
		}
	}
}

func TestWriteStatus(t *testing.T) {
	now := time.Unix(10_000, 0)
	hits := 0.914
	s := control.Status{Now: now, Replicas: []control.Replica{
		{ID: "r0", Model: "m", State: control.StateReady, PID: 7, StartedAt: now.Add(-2 * time.Hour), Held: 5, GPUs: []int{0, 1},
			Engine: &control.Engine{Waiting: 3, KVUsed: 0.68, HitRate60s: &hits}, TTFT: &control.Quantiles{P50: 0.28, P95: 1}},
		{ID: "r1", Model: "m", State: control.StateBackoff, Restarts: 2, CPUs: []int{2}, NextRetry: now.Add(65 * time.Second),
			Diagnosis: &control.Diagnosis{Cause: "no memory"}, Engine: &control.Engine{Stale: true, KVUsed: 0.5}},
		{ID: "r2", Model: "m", State: control.StateStarting, Phase: &control.Phase{Name: "weights", Done: 2, Total: 3, Detail: "shards"}},
	}}
	for _, tt := range []struct {
		simulated, wide bool
		want            []string
	}{
		{false, false, []string{"REPLICA STATE GPU UP RST HELD WAIT KV HIT NOTE", "r0 ready 0,1 2h0m 0 5 3 68% 91%", "r1 backoff cpu2 - 2 0 - - - no memory, retry in 1m5s", "r2 starting - - 0 0 - - - weights 2/3, shards"}},
		{true, true, []string{"SIMULATED engines: no figure here was measured on a GPU",
			"REPLICA MODEL STATE GPU PID UP RST HELD STICKY SPILLED RUN WAIT KV HIT TTFT50 TTFT95 NOTE", "r0 m ready 0,1 7 2h0m 0 5 0 0 0 3 68% 91% 0.28s 1.00s"}},
	} {
		s.Simulated = tt.simulated
		var b bytes.Buffer
		if err := WriteStatus(&b, s, tt.wide); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(b.String(), "\n")
		for i, want := range tt.want {
			if i >= len(lines) || strings.Join(strings.Fields(lines[i]), " ") != want {
				t.Errorf("line %d is not %q:\n%s", i, want, b.String())
			}
		}
	}
}
