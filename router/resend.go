package router

import (
	"errors"
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
const resendAfter = 120 * time.Second

// errResent ends a request that its client has sent again.
var errResent = errors.New("the client sent the same request again")

// fingerprint stands, within this process, for all of a body but its turns: a
// copy of a request has those of the conversation's latest (KindRetry).
func (r *Router) fingerprint(b *scan.Body, body []byte) uint64 {
	before, behind := b.BesidesTurns(body)
	return maphash.Bytes(r.seed, before) ^ bits.RotateLeft64(maphash.Bytes(r.seed, behind), 1)
}

// replaceEarlier ends the request that t is another copy of. The lock is held.
func (d *deployment) replaceEarlier(t *turn) {
	if t.same.Kind != identity.KindRetry || !t.same.Busy {
		return
	}
	var earlier *turn
	for _, o := range t.talk.open {
		if o.body != t.body || o.dropped {
			continue
		}
		if earlier != nil {
			return
		}
		earlier = o
	}
	if earlier == nil || t.arrived.Sub(earlier.arrived) < resendAfter {
		return
	}
	earlier.dropped = true
	earlier.drop()
	d.stats.resent++
	d.tell("resent", d.placeOf(earlier), "session "+t.key.Short()+" sent a request again; the earlier one was ended",
		map[string]string{"session": t.key.Short()})
}

// placeOf is the replica of a turn, "" while it waits.
func (d *deployment) placeOf(t *turn) ReplicaID {
	if t.up == nil {
		return ""
	}
	return t.up.id
}
