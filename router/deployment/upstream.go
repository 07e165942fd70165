package deployment

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lm-warden/warden/router/link"
)

// Upstream is one process of a replica. A restarted replica is another
// upstream: what still runs on the old one counts there.
type Upstream struct {
	ID         ReplicaID
	Generation uint64
	Link       *link.Link // the connections to it

	held     atomic.Int64 // turns placed here whose last byte is not sent
	lastByte atomic.Int64 // Unix nanoseconds of the latest data, 0 before

	// Guarded by the deployment's lock.
	facts  Replica
	paused bool        // connecting failed a moment ago
	resume *time.Timer // ends the pause
}

func newUpstream(facts Replica, dial link.Dialer, buffers *link.Buffers) *Upstream {
	return &Upstream{ID: facts.ID, Generation: facts.Generation, facts: facts, Link: link.New(facts.Address, dial, buffers)}
}

// Dead is the failure of an engine whose API server still answers, but only to
// say that the engine behind it has died.
func (u *Upstream) Dead() error { return fmt.Errorf("replica %s: its engine is dead", u.ID) }

// Touch notes that data of an answer has arrived.
func (u *Upstream) Touch(now time.Time) { u.lastByte.Store(now.UnixNano()) }

// latest is when data of an answer last arrived; zero: never.
func (u *Upstream) latest() time.Time {
	if ns := u.lastByte.Load(); ns > 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// retire releases what an upstream holds beside its requests in flight.
func (u *Upstream) retire() {
	if u.resume != nil {
		u.resume.Stop()
	}
	u.Link.Close()
}
