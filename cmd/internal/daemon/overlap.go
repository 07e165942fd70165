package daemon

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lm-warden/warden/cmd/internal/handover"
	"github.com/lm-warden/warden/router"
	"github.com/lm-warden/warden/supervisor"
)

// While two wardens overlap, the one that leaves still answers what it has begun.
// It tells the other how much that is, so that orders and figures there count
// all that is in flight on a replica.

const (
	// heldEach is how old the count of the one before may be.
	heldEach = 200 * time.Millisecond
	// heldPatience is for the other to take a line; it may be stopped.
	heldPatience = time.Second
)

// heldWork is the form of supervisor.Work between two wardens, which may be of
// different versions.
type heldWork struct {
	Held     int       `json:"held"`
	LastByte time.Time `json:"last_byte,omitzero"`
}

// work is what is in flight on a replica, here and at the warden before.
func (d *Daemon) work(id supervisor.ReplicaID) supervisor.Work {
	work := d.before.work(id)
	held, last := d.router.Work(router.ReplicaID(id))
	work.Held += held
	if last.After(work.LastByte) {
		work.LastByte = last
	}
	return work
}

// tellHeld tells the successor what is held here, again and again until ctx ends
// or nobody listens.
func (d *Daemon) tellHeld(ctx context.Context) {
	tick := time.NewTicker(heldEach)
	defer tick.Stop()
	for {
		all := map[supervisor.ReplicaID]heldWork{}
		for _, r := range d.sup.Snapshot() {
			if w := d.work(r.ID); w.Held > 0 {
				all[r.ID] = heldWork(w)
			}
		}
		text, err := json.Marshal(all)
		if err == nil {
			err = d.next.link.SayWithin(heldPatience, handover.Held+" "+string(text))
		}
		if err != nil { // the other has ended
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// work is what the one before still holds on a replica.
func (p *predecessor) work(id supervisor.ReplicaID) supervisor.Work {
	if p == nil {
		return supervisor.Work{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return supervisor.Work(p.held[id])
}

// holds takes over what the one before said last. What cannot be read was said
// by another version, and counts as nothing.
func (p *predecessor) holds(text string) {
	held := map[supervisor.ReplicaID]heldWork{}
	_ = json.Unmarshal([]byte(text), &held)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
}
