package placement

import (
	"cmp"
	"slices"
	"time"

	"github.com/lm-warden/warden/router/placement/ledger"
)

// settle is the time after the end of a turn during which nobody can tell
// whether its conversation goes on: one that does not pause is back within
// milliseconds.
const settle = 50 * time.Millisecond

// weighEvery is how long weights may age. They change with idle time only, and
// gaps worth telling apart are longer.
const weighEvery = 250 * time.Millisecond

// weight is what m weighs now, and whether its turn has only just ended.
func (a *admission) weight(m *ledger.Resident, horizon time.Duration, now time.Time) (weight float64, undecided bool) {
	if m.Busy() {
		return 1, false
	}
	return a.gaps[m.Finish()].Returns(m.EndedAt(), now, horizon), now.Sub(m.EndedAt()) < settle
}

// judge weighs one resident of r.
func (a *admission) judge(r *ledger.Replica, s *ledger.Session, now time.Time) {
	horizon := a.horizon(r)
	r.Residents.Judge(s, func(m *ledger.Resident) (float64, bool) { return a.weight(m, horizon, now) })
}

// weigh brings the weights of all of r's residents up to date.
func (a *admission) weigh(r *ledger.Replica, now time.Time) {
	horizon := a.horizon(r)
	r.Residents.Weigh(now, func(m *ledger.Resident) (float64, bool) { return a.weight(m, horizon, now) })
}

// fewResidents is a number that can always be weighed anew.
const fewResidents = 32

// refresh weighs r's residents if their weights are old, within the bounds of
// one step.
func (a *admission) refresh(r *ledger.Replica, now time.Time) {
	age, n := now.Sub(r.Residents.WeighedAt()), r.Residents.Len()
	old := age >= weighEvery || (r.Residents.Undecided() > 0 && age >= settle) || (n <= fewResidents && age > 0)
	if old && a.weighings > 0 {
		a.weighings -= n
		a.weigh(r, now)
	}
}

// horizonShare scales the time that one slot is worth holding: the seconds of
// a slot that computing a conversation again costs. Found on the ladder: 0.5
// costs 6 % of the throughput at gaps of 5 s, 1 gains nothing anywhere.
const horizonShare = 0.7

// horizon is how long it pays to keep a slot of r for a conversation that is
// away: the time to compute an average resident again, times the residents,
// because all of them wait meanwhile.
func (a *admission) horizon(r *ledger.Replica) time.Duration {
	n := r.Residents.Len()
	if n == 0 {
		return 0
	}
	again := float64(r.Residents.Foot()) / r.Rate.TokensPerSecond() // all residents
	if r.HostKVTokens > 0 {
		again *= hostCost
	}
	return time.Duration(horizonShare * again * float64(time.Second))
}

// room reports whether foot more tokens of a conversation with that root fit r:
// at once, or after those likely gone have been released; soon, if it would do
// so without those that are undecided.
func (a *admission) room(p *Placer, r *ledger.Replica, foot int, rt *ledger.Root, now time.Time) (fits, soon bool) {
	if r.Capacity() == 0 {
		return true, true // unknown: nothing to hold back for
	}
	free := r.Room(rt)
	if float64(r.Residents.Foot()+foot) <= free {
		return true, true // whoever they are, all fit
	}
	a.refresh(r, now)
	if r.Residents.AllGone() && r.Held() == 0 {
		return true, true // alone, even if larger than the cache: somebody must serve it
	}
	need := r.Residents.Firm() + float64(foot)
	return need <= free, need-r.Residents.Undecided() <= free
}

// makeRoom releases the residents of r that are likely gone, least likely to
// return first, until foot more tokens fit.
func (a *admission) makeRoom(p *Placer, r *ledger.Replica, foot int, rt *ledger.Root, now time.Time) {
	if r.Capacity() == 0 {
		return
	}
	free := r.Room(rt) - float64(foot)
	if float64(r.Residents.Foot()) > free {
		a.releaseUntil(r, free, ledger.LikelyGone, 0, now)
	}
}

// releaseUntil releases idle residents with a weight below limit, least likely
// to return first and among equals the one admitted latest, until the others
// need at most free tokens or only keep residents are left.
func (a *admission) releaseUntil(r *ledger.Replica, free, limit float64, keep int, now time.Time) {
	if !r.Residents.WeighedAt().Equal(now) {
		a.weigh(r, now)
	}
	if r.Residents.Occupied() <= free {
		return
	}
	a.idle = a.idle[:0]
	for i := r.Residents.Len() - 1; i >= 0; i-- {
		if m := r.Residents.At(i); !m.Busy() && m.Weight() < limit {
			a.idle = append(a.idle, weighed{m.Session(), m.Weight()})
		}
	}
	slices.SortStableFunc(a.idle, func(x, y weighed) int { return cmp.Compare(x.weight, y.weight) })
	for _, v := range a.idle {
		if r.Residents.Occupied() <= free || r.Residents.Len() <= keep {
			break
		}
		r.Release(v.session)
	}
	clear(a.idle)
}

// weighed is an idle resident with its weight.
type weighed struct {
	session *ledger.Session
	weight  float64
}
