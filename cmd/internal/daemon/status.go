package daemon

import (
	"time"

	"github.com/lm-warden/warden/cmd/internal/status"
	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/control"
)

// maxListedSessions bounds the sessions in a status, per model.
const maxListedSessions = 200

// Status asks the parts what they know, and puts it together with what is the
// warden's own.
func (d *Daemon) Status() control.Status {
	facts := status.Facts{
		Now: time.Now(), Models: d.models, Replicas: d.sup.Snapshot(), Routed: d.router.Snapshot(maxListedSessions),
		Rates: d.engines.all(), Before: map[supervisor.ReplicaID]supervisor.Work{},
		Devices: d.gpus.Inventory().Devices, XIDs: map[string]map[int]uint64{}, Asides: d.sup.Asides(),
	}
	var gpuNote string
	facts.Samples, gpuNote = d.gpus.Latest()
	for _, device := range facts.Devices {
		facts.XIDs[device.UUID] = d.gpus.XIDs(device.UUID)
	}
	for _, r := range facts.Replicas {
		facts.Before[r.ID] = d.before.work(r.ID)
	}
	s := facts.Status()
	s.Version, s.PID, s.StartedAt, s.LogDir = d.opts.Version, pid, d.started, d.logDir()
	s.Listen, s.Access, s.GPUNote, s.Hold = d.url(), d.access(), gpuNote, d.gpus.Held()
	if d.isStopping() {
		s.State = control.DaemonStopping
	}
	return s
}
