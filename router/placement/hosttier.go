package placement

import (
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// An engine may copy prompts to host memory and load them back instead of
// computing them (vLLM's --kv-offloading-size). Then a conversation that was
// displaced from the KV cache costs a tenth of a second, not seconds, but only
// on the replica that holds its copy. So it waits for that replica alone, and
// residents give way to waiting ones much sooner.

// hostCost is what loading a token costs, as a share of computing it: 81,000
// tokens/s over half of PCIe 4.0 x 16 against 3,600 computed on the reference
// machine, and room for the engine's own overhead.
const hostCost = 0.1

// With a host tier what does not fit is only loaded again, so less is kept free
// for growth (hostedReserve instead of growthReserve) and residents may outgrow
// the cache by hostedExcess turns each before one has to go.
const (
	hostedReserve = 0.5
	hostedExcess  = 0.5
)

// reserve is how many turns of growth are kept free for each resident when
// another is admitted, and how few may be left before one has to go.
func (p *Placer) reserve() (admit, shed float64) {
	if p.hostTier {
		return hostedReserve, -hostedExcess
	}
	return growthReserve, shedReserve
}

// lane is the only replica worth waiting for, nil when any will do: home, when
// its host tier holds more than half of the conversation. Who has waited too
// long goes anywhere.
func (a *admission) lane(p *Placer, t *turn, now time.Time) *ledger.Replica {
	home := t.session.HomeNow()
	if home == nil || t.Fresh || !home.Accepting || t.triedOn(home, now) {
		return nil
	}
	if !t.place.Since.IsZero() && now.Sub(t.place.Since) >= p.cfg.Admission.ForceAfter {
		return nil
	}
	if 2*t.session.HostedOn(home) <= t.session.Foot() {
		return nil
	}
	return home
}

// With a copy in the host tier a resident gives way to the first in the queue
// when that one has waited for hostedLeast and hostedPatience times the mean wait
// of a turn. By Little's law all turns together wait for the same time, whoever
// does; this is who. Giving way to one who would have gone in a moment costs two
// turns a load each and gains nobody anything: hence hostedLeast. Beyond it a
// smaller patience makes all wait alike, as in first come first served, a larger
// one makes fewer wait longer. Found on the ladder, 24 and 32 sessions: with these
// about 40 % of the turns wait, 1.7 raises the median of 24 above that of the
// fastest policy without the tier, 2 the p95 of 32.
const (
	hostedPatience = 1.85
	hostedLeast    = 4 * time.Second
)

// rotateHosted is the wait of the first in the queue after which a resident
// with a copy in the host tier gives way.
func (a *admission) rotateHosted(p *Placer) time.Duration {
	if fixed := p.cfg.Admission.RotateHosted; fixed > 0 {
		return fixed
	}
	if p.pace.PerSecond() == 0 {
		return p.cfg.Admission.RotateAfter
	}
	mean := float64(p.queue.Len()) / p.pace.PerSecond()
	wait := hostedLeast + time.Duration(hostedPatience*mean*float64(time.Second))
	return min(wait, p.cfg.Admission.RotateAfter)
}
