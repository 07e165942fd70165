package keep

import (
	"testing"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/machine"
)

func TestTurns(t *testing.T) {
	r := func(id string, model string, s supervisor.State, change ...func(*supervisor.Replica)) supervisor.Replica {
		out := supervisor.Replica{Spec: supervisor.Spec{ID: supervisor.ReplicaID(id), Model: model, Device: supervisor.DeviceCUDA}, State: s}
		for _, c := range change {
			c(&out)
		}
		return out
	}
	was := func(r *supervisor.Replica) { r.ReadyAt = t0 }
	simulated := func(r *supervisor.Replica) { r.Device = supervisor.DeviceSimulated }
	permanent := supervisor.Diagnosis{Cause: "bad flag", Permanent: true}
	broken := func(r *supervisor.Replica) { r.Diagnosis = permanent }
	tests := []struct {
		name     string
		parallel bool
		all      []supervisor.Replica
		want     []turn
	}{
		{"first alone", false, []supervisor.Replica{r("a", "m", supervisor.Pending), r("b", "m", supervisor.Pending)}, []turn{{"a", machine.Start{}}}},
		{"each model has a first", false, []supervisor.Replica{r("a", "m", supervisor.Pending), r("b", "n", supervisor.Pending)}, []turn{{"a", machine.Start{}}, {"b", machine.Start{}}}},
		{"first is starting", false, []supervisor.Replica{r("a", "m", supervisor.Starting), r("b", "m", supervisor.Pending)}, nil},
		{"first retries", false, []supervisor.Replica{r("a", "m", supervisor.Backoff), r("b", "m", supervisor.Pending)}, nil},
		{"first is ready", false, []supervisor.Replica{r("a", "m", supervisor.Ready, was), r("b", "m", supervisor.Pending), r("c", "m", supervisor.Pending)}, []turn{{"b", machine.Start{}}, {"c", machine.Start{}}}},
		{"first was ready once", false, []supervisor.Replica{r("a", "m", supervisor.Suspect, was), r("b", "m", supervisor.Pending)}, []turn{{"b", machine.Start{}}}},
		{"first is parked for good", false, []supervisor.Replica{r("a", "m", supervisor.Parked, broken), r("b", "m", supervisor.Pending), r("c", "m", supervisor.Pending)},
			[]turn{{"b", machine.Sibling{Cause: permanent.Cause}}, {"b", machine.Start{}}}},
		{"first was stopped", false, []supervisor.Replica{r("a", "m", supervisor.Stopped), r("b", "m", supervisor.Pending)}, []turn{{"b", machine.Start{}}}},
		{"parallel", true, []supervisor.Replica{r("a", "m", supervisor.Pending), r("b", "m", supervisor.Pending)}, []turn{{"a", machine.Start{}}, {"b", machine.Start{}}}},
		{"simulated", false, []supervisor.Replica{r("a", "m", supervisor.Pending, simulated), r("b", "m", supervisor.Pending, simulated)}, []turn{{"a", machine.Start{}}, {"b", machine.Start{}}}},
	}
	for _, tt := range tests {
		turns := turns{parallel: tt.parallel}
		got := turns.next(tt.all)
		if len(got) != len(tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
			}
		}
	}
}
