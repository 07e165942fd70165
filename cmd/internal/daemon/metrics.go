package daemon

import (
	"github.com/lm-warden/warden/cmd/internal/metrics"
	"github.com/lm-warden/warden/cmd/internal/status"
	"github.com/lm-warden/warden/supervisor"
)

// newMetrics makes what GET /metrics answers. It is asked while the API is
// served, when the supervisor is there.
func (d *Daemon) newMetrics() *metrics.Exporter {
	lines, spans := d.recorders.dropped()
	return metrics.New(metrics.Options{
		Version: d.opts.Version, Revision: d.opts.Revision, Log: d.log,
		Replicas:      func() []supervisor.Replica { return d.sup.Snapshot() },
		GPUs:          d.measuredGPUs,
		StartsHeld:    func() bool { return d.gpus.Held() != nil },
		WayIn:         d.wayIn,
		EventsDropped: d.bus.Dropped, LinesDropped: lines, SpansDropped: spans,
	})
}

func (d *Daemon) measuredGPUs() []metrics.GPU {
	samples, _ := d.gpus.Latest()
	replicas := d.sup.Snapshot()
	asides := d.sup.Asides()
	var out []metrics.GPU
	for _, device := range d.gpus.Inventory().Devices {
		_, aside := asides[device.UUID]
		out = append(out, metrics.GPU{Device: device, Replica: status.OwnerOf(device, replicas), Sample: samples[device.UUID],
			XIDs: d.gpus.XIDs(device.UUID), Aside: aside})
	}
	return out
}
