// Package status puts together what the parts of a warden know at one moment, in
// the control API's words. It asks nobody: package daemon does, and gives it values.
//
// Reading order: status.go (the whole, and sums over it), model.go (a model, and
// what was chosen for its engines), replica.go (a replica, its engine and its
// sessions), gpu.go.
package status

import (
	"time"

	"github.com/lm-warden/warden/cmd/internal/plan"
	"github.com/lm-warden/warden/cmd/internal/rates"
	"github.com/lm-warden/warden/gpu"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
)

// Facts is what the parts know at Now.
type Facts struct {
	Now      time.Time
	Models   []plan.Model
	Replicas []supervisor.Replica
	Routed   router.Snapshot // its models are those of Models, in their order
	Rates    map[supervisor.ReplicaID]rates.Rates
	// Before is what a warden that this one took over from still has in flight.
	Before map[supervisor.ReplicaID]supervisor.Work

	Devices []gpu.Device
	// By UUID, for the devices of which there is something to say.
	Samples map[string]gpu.Sample
	XIDs    map[string]map[int]uint64 // how often each code came
	Asides  map[string]supervisor.Aside
}

// Status is all that follows from the facts; what is the warden's own, such as its
// address, is left to fill in.
func (f Facts) Status() control.Status {
	s := control.Status{
		Schema: control.Schema, Now: f.Now, State: stateOf(f.Replicas),
		Models: []control.Model{}, Replicas: []control.Replica{}, GPUs: []control.GPU{},
	}
	for i, m := range f.Models {
		s.Simulated = s.Simulated || m.Specs[0].Device == supervisor.DeviceSimulated
		s.Models = append(s.Models, modelStatus(m, f.Routed.Models[i], f.Replicas))
	}
	for _, r := range f.Replicas {
		s.Replicas = append(s.Replicas, f.replica(r))
	}
	for _, device := range f.Devices {
		s.GPUs = append(s.GPUs, f.gpu(device))
	}
	s.Totals = f.totals(s.Replicas)
	return s
}

// stateOf is what the replicas make of the whole warden.
func stateOf(replicas []supervisor.Replica) string {
	serving, coming := false, false
	for _, r := range replicas {
		serving = serving || r.State == supervisor.Ready || r.State == supervisor.Suspect
		coming = coming || r.Coming()
	}
	switch {
	case serving:
		return control.DaemonServing
	case coming:
		return control.DaemonStarting
	}
	return control.DaemonFailed
}

// totals sums over replicas and models.
func (f Facts) totals(replicas []control.Replica) control.Totals {
	t := control.Totals{Placements: map[string]uint64{}}
	perSecond := 0.0
	for _, m := range f.Routed.Models {
		t.Requests += m.Requests
		t.Errors += m.Errors + m.Refused
		t.Retried += m.Retried
		t.SessionsLive += m.SessionsLive
		t.SessionsSeen += uint64(m.SessionsSeen)
		t.HomesLost += m.HomesLost
		perSecond += m.RequestsPerSecond
		for reason, n := range m.Placements {
			t.Placements[string(reason)] += n
		}
	}
	t.RequestsPerSecond = &perSecond
	t.TTFT = quantiles(f.Routed.TTFT)
	var sum rates.Rates
	any := false
	for _, r := range replicas {
		t.Held += r.Held
		if minute, ok := f.Rates[supervisor.ReplicaID(r.ID)]; ok && r.PID != 0 {
			any = true
			sum.Prefill += minute.Prefill
			sum.Decode += minute.Decode
			sum.Hits += minute.Hits
			sum.Queries += minute.Queries
		}
	}
	if any {
		t.PrefillTokensPerSecond, t.DecodeTokensPerSecond = &sum.Prefill, &sum.Decode
		if share, ok := sum.HitRate(); ok {
			t.HitRate60s = &share
		}
	}
	return t
}
