package daemon

import (
	"slices"
	"time"

	"github.com/lm-warden/warden/supervisor"
	"github.com/lm-warden/warden/supervisor/shim"
)

// How long requests wait for the adoption, which takes some hundredths of a
// second where nothing hangs and no engine still loads its model.
const (
	adoptionLimit = 1500 * time.Millisecond
	adoptionLook  = 5 * time.Millisecond
)

// awaitAdoption returns once the router knows of every engine that was left
// running whether it serves. Clients whose answers broke with the warden before
// all come back in the same moment: turns that are placed while only some of the
// engines serve go to one that does not hold their conversation. They wait in
// the socket's queue meanwhile.
func (d *Daemon) awaitAdoption(left []shim.State) {
	limit := time.NewTimer(adoptionLimit)
	defer limit.Stop()
	look := time.NewTicker(adoptionLook)
	defer look.Stop()
	for slices.ContainsFunc(d.sup.Snapshot(), func(r supervisor.Replica) bool {
		return d.undecided(r) && slices.ContainsFunc(left, func(s shim.State) bool { return s.Replica == string(r.ID) })
	}) {
		select {
		case <-look.C:
		case <-limit.C:
			return
		case <-d.stopping:
			return
		case <-d.leaving:
			return
		}
	}
}

// undecided says that a replica may be found serving any moment, or that the
// router does not know yet that it was.
func (d *Daemon) undecided(r supervisor.Replica) bool {
	unproven := r.State == supervisor.Suspect && r.ReadyAt.IsZero()
	return r.State == supervisor.Pending || unproven || !d.facts.told(r)
}
