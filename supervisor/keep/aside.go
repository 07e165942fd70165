package keep

import (
	"context"
	"slices"
	"strings"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/events"
	"github.com/lm-warden/warden/supervisor/machine"
)

// SetAside takes one GPU out of use: its replica is parked, and all others go on. news is false when that was known
// already, and not less bad.
func (s *Supervisor) SetAside(uuid string, a supervisor.Aside) (news bool) {
	news, err := s.ledger.SetAside(uuid, a)
	if err != nil {
		s.opts.Log.Warn("not kept for the next run of warden", "what", "GPU set aside", "gpu", uuid, "err", err)
	}
	if !news {
		return false
	}
	select {
	case <-s.running:
	default:
		return true // found by the start
	}
	for _, r := range s.replicas {
		if slices.Contains(r.spec.GPUUUIDs, uuid) {
			if ev, is := r.setAside(); is {
				r.post(context.Background(), ev)
			}
		}
	}
	return true
}

// Asides returns the GPUs that are set aside, by UUID.
func (s *Supervisor) Asides() map[string]supervisor.Aside { return s.ledger.Asides() }

// setAside says whether the replica has a GPU that is set aside, and why.
func (r *replica) setAside() (ev machine.Aside, is bool) {
	a, is := r.ledger.Aside(r.spec.GPUUUIDs)
	fix := "`warden retry " + string(r.spec.ID) + "` takes it back into use"
	if a.Fix != "" {
		fix = a.Fix + "; then " + fix
	}
	return machine.Aside{Diagnosis: supervisor.Diagnosis{Cause: "its GPU is set aside: " + a.Cause, Fix: fix}, Gone: a.Gone}, is
}

// takeBack ends the setting aside of the replica's GPUs, by order.
func (r *replica) takeBack() {
	before, err := r.ledger.TakeBack(r.spec.GPUUUIDs)
	r.keep("GPU taken back", err)
	if len(before) > 0 {
		r.tell(events.KindGPU, "its GPU is used again by order; it was set aside for: "+strings.Join(before, ", "), nil)
	}
}
