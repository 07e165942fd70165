package placement

import (
	"cmp"
	"slices"
	"time"
)

// likelyGone is the weight below which an idle resident gives way to a waiting
// conversation. Found on the ladder: 0.3 costs 9 % of the throughput at gaps of
// 15 s, 0.7 costs 7 % at gaps of 2 s.
const likelyGone = 0.5

// settle is the time after the end of a turn during which nobody can tell
// whether its conversation goes on: one that does not pause is back within
// milliseconds.
const settle = 50 * time.Millisecond

// weighEvery is how long weights may age. They change with idle time only, and
// gaps worth telling apart are longer.
const weighEvery = 250 * time.Millisecond

// judge weighs one member.
func (a *admission) judge(r *replica, m *resident, horizon time.Duration, now time.Time) {
	weight, undecided := a.weight(m, horizon, now)
	r.res.set(m, weight, undecided)
}

// weight is what m weighs now, and whether its turn has only just ended.
func (a *admission) weight(m *resident, horizon time.Duration, now time.Time) (weight float64, undecided bool) {
	if m.busy {
		return 1, false
	}
	return a.gaps[m.finish].Returns(m.endedAt, now, horizon), now.Sub(m.endedAt) < settle
}

// weigh brings the weights of all of r's residents up to date, and their sums:
// those of many small changes drift, so they start again from what is there.
func (a *admission) weigh(r *replica, now time.Time) {
	rs, horizon := &r.res, a.horizon(r)
	rs.occupied, rs.releasable, rs.undecided, rs.firm = 0, 0, 0, 0
	for i := range rs.members {
		m := &rs.members[i]
		m.weight, m.undecided = a.weight(m, horizon, now)
		rs.count(m, 1)
	}
	rs.weighedAt = now
}

// fewResidents is a number that can always be weighed anew.
const fewResidents = 32

// refresh weighs r's residents if their weights are old, within the bounds of
// one step.
func (a *admission) refresh(r *replica, now time.Time) {
	age, n := now.Sub(r.res.weighedAt), len(r.res.members)
	old := age >= weighEvery || (r.res.undecided > 0 && age >= settle) || (n <= fewResidents && age > 0)
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
func (a *admission) horizon(r *replica) time.Duration {
	n := len(r.res.members)
	if n == 0 {
		return 0
	}
	again := float64(r.res.foot) / r.rate.tokensPerSecond() // all residents
	if r.HostKVTokens > 0 {
		again *= hostCost
	}
	return time.Duration(horizonShare * again * float64(time.Second))
}

// room reports whether foot more tokens of a conversation with that root fit r:
// at once, or after those likely gone have been released; soon, if it would do
// so without those that are undecided.
func (a *admission) room(p *Placer, r *replica, foot int, rt *root, now time.Time) (fits, soon bool) {
	if r.capacity() == 0 {
		return true, true // unknown: nothing to hold back for
	}
	free := r.handedOut(rt)
	if float64(r.res.foot+foot) <= free {
		return true, true // whoever they are, all fit
	}
	a.refresh(r, now)
	if r.res.firm == 0 && r.held == 0 {
		return true, true // alone, even if larger than the cache: somebody must serve it
	}
	need := r.res.occupied - r.res.releasable + float64(foot)
	return need <= free, need-r.res.undecided <= free
}

// makeRoom releases the residents of r that are likely gone, least likely to
// return first, until foot more tokens fit.
func (a *admission) makeRoom(p *Placer, r *replica, foot int, rt *root, now time.Time) {
	if r.capacity() == 0 {
		return
	}
	free := r.handedOut(rt) - float64(foot)
	if float64(r.res.foot) > free {
		a.releaseUntil(r, free, likelyGone, 0, now)
	}
}

// handedOut is the room, in tokens, for r's residents, with the shared prefix
// of one more.
func (r *replica) handedOut(more *root) float64 {
	return r.safety.share()*float64(r.capacity()) - float64(r.res.shared(more)+r.loose)
}

// releaseUntil releases idle residents with a weight below limit, least likely
// to return first and among equals the one admitted latest, until the others
// need at most free tokens or only keep residents are left.
func (a *admission) releaseUntil(r *replica, free, limit float64, keep int, now time.Time) {
	if !r.res.weighedAt.Equal(now) {
		a.weigh(r, now)
	}
	if r.res.occupied <= free {
		return
	}
	a.idle = a.idle[:0]
	for i := len(r.res.members) - 1; i >= 0; i-- {
		if m := &r.res.members[i]; !m.busy && m.weight < limit {
			a.idle = append(a.idle, weighed{m.session, m.weight})
		}
	}
	slices.SortStableFunc(a.idle, func(x, y weighed) int { return cmp.Compare(x.weight, y.weight) })
	for _, v := range a.idle {
		if r.res.occupied <= free || len(r.res.members) <= keep {
			break
		}
		r.res.remove(v.session)
	}
	clear(a.idle)
}

// weighed is an idle resident with its weight.
type weighed struct {
	session *session
	weight  float64
}
