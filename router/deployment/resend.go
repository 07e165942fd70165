package deployment

import (
	"hash/maphash"
	"math/bits"
	"time"

	"github.com/lm-warden/warden/router/identity"
	"github.com/lm-warden/warden/router/identity/scan"
)

// A client that vanishes without closing its connection (a tunnel that went, a
// machine asleep) leaves its request running for nobody, and sends the same one
// again when its patience ends. The earlier one is then ended for the later:
// its cache is warm, so that little is lost, and an answer that was half sent
// to nobody cannot be attached to.
//
// Two requests that are alike are no proof: agents start several sub-agents on
// one task at once, some clients give them all one id, and load tests send one
// request over and over. So there must be one earlier copy and no more, and it
// must be older than any burst: clients wait 180 s (the least measured) to
// 600 s for an answer. Requests without an id are never ended: nothing tells a
// copy of theirs from a sibling.

// ResendAfter is how much older a request must be than its copy, to be ended for it.
const ResendAfter = 120 * time.Second

// fingerprint stands, within this process, for all of a body but its turns: a
// copy of a request has those of the conversation's latest (KindRetry).
func (d *Deployment) fingerprint(b *scan.Body, body []byte) uint64 {
	before, behind := b.BesidesTurns(body)
	return maphash.Bytes(d.seed, before) ^ bits.RotateLeft64(maphash.Bytes(d.seed, behind), 1)
}

// replaceEarlier ends the request that t is another copy of. The lock is held.
func (d *Deployment) replaceEarlier(t *Turn) {
	if t.same.Kind != identity.KindRetry || !t.same.Busy {
		return
	}
	var earlier *Turn
	for _, o := range t.talk.open {
		if o.body != t.body || o.dropped {
			continue
		}
		if earlier != nil {
			return
		}
		earlier = o
	}
	if earlier == nil || t.Arrived.Sub(earlier.Arrived) < ResendAfter {
		return
	}
	earlier.dropped = true
	earlier.drop()
	d.stats.resent++
	d.tell("resent", d.placeOf(earlier), "session "+t.Key.Short()+" sent a request again; the earlier one was ended",
		map[string]string{"session": t.Key.Short()})
}

// placeOf is the replica of a turn, "" while it waits.
func (d *Deployment) placeOf(t *Turn) ReplicaID {
	if t.up == nil {
		return ""
	}
	return t.up.ID
}
