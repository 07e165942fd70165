package router

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/lm-warden/warden/router/link"
)

// upstream is one process of a replica. A restarted replica is another
// upstream: what still runs on the old one counts there.
type upstream struct {
	id         ReplicaID
	generation uint64
	link       *link.Link

	held     atomic.Int64 // turns placed here whose last byte is not sent
	lastByte atomic.Int64 // Unix nanoseconds of the latest data, 0 before

	// Guarded by the deployment's lock.
	facts  Replica
	paused bool        // connecting failed a moment ago
	resume *time.Timer // ends the pause
}

func newUpstream(facts Replica, dial link.Dialer, buffers *link.Buffers) *upstream {
	return &upstream{id: facts.ID, generation: facts.Generation, facts: facts, link: link.New(facts.Address, dial, buffers)}
}

// dead is the failure of an engine whose API server still answers, but only to
// say that the engine behind it has died.
func (u *upstream) dead() error { return fmt.Errorf("replica %s: its engine is dead", u.id) }

// touch notes that data of an answer has arrived.
func (u *upstream) touch(now time.Time) { u.lastByte.Store(now.UnixNano()) }
