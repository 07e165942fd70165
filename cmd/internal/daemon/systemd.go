package daemon

import (
	"github.com/lm-warden/warden/cmd/internal/service"
	"github.com/lm-warden/warden/supervisor"
)

// serviceFacts is what systemd is told of the replicas.
func (d *Daemon) serviceFacts() service.Facts {
	var f service.Facts
	for _, r := range d.sup.Snapshot() {
		f.Total++
		if r.State == supervisor.Ready {
			f.Ready++
		}
		f.Coming = f.Coming || r.Coming()
	}
	return f
}
