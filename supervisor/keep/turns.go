package keep

import (
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/machine"
)

// turns decides who may start. The first replica of a model starts alone: it fills the download and compile caches,
// which several at once would fill several times, each slower. The rest follow together once it is ready.
type turns struct {
	parallel bool
	warm     map[string]bool // models of which a replica has been ready
}

// turn is an order for one replica.
type turn struct {
	id    supervisor.ReplicaID
	event machine.Event
}

// next takes a snapshot and returns whom to start, and whom to tell of a sibling's permanent failure: the same cause
// need not be met twice by each of them.
func (t *turns) next(all []supervisor.Replica) []turn {
	if t.warm == nil {
		t.warm = make(map[string]bool)
	}
	busy := make(map[string]bool)
	cause := make(map[string]string)
	for _, r := range all {
		if !r.ReadyAt.IsZero() {
			t.warm[r.Model] = true
		}
		switch {
		case r.State == supervisor.Parked && r.Diagnosis.Permanent:
			cause[r.Model] = r.Diagnosis.Cause
		case r.State != supervisor.Pending && r.State != supervisor.Stopped && r.State != supervisor.Stuck && r.State != supervisor.Parked:
			busy[r.Model] = true
		}
	}
	var out []turn
	for _, r := range all {
		if r.State != supervisor.Pending {
			continue
		}
		if t.parallel || r.Device == supervisor.DeviceSimulated || t.warm[r.Model] || !busy[r.Model] {
			if c := cause[r.Model]; c != "" {
				out = append(out, turn{r.ID, machine.Sibling{Cause: c}})
			}
			out = append(out, turn{r.ID, machine.Start{}})
			busy[r.Model] = true
		}
	}
	return out
}
