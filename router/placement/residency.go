package placement

import (
	"cmp"
	"slices"
	"time"
)

// residentSet is the set of conversations whose KV an engine is meant to keep.
// Only their turns are sent without asking for room.
type residentSet struct {
	sessions []*session
	foot     int // tokens of all of them, shared prefixes not counted
	roots    []rootUse

	// what they weighed when last looked at, see weigh; additions since then
	// are counted in full, removals not yet
	weighedAt  time.Time
	stale      bool
	occupied   float64
	releasable float64
	undecided  float64
	firm       int
}

// rootUse counts the residents with one shared prefix. A replica has a handful
// of them, one for each kind of agent.
type rootUse struct {
	root      *root
	residents int
}

// useRoot changes the number of residents with rt by n.
func (rs *residentSet) useRoot(rt *root, n int) {
	i := slices.IndexFunc(rs.roots, func(u rootUse) bool { return u.root == rt })
	if i < 0 {
		rs.roots = append(rs.roots, rootUse{rt, n})
		return
	}
	if rs.roots[i].residents += n; rs.roots[i].residents == 0 {
		rs.roots = slices.Delete(rs.roots, i, i+1)
	}
}

func (rs *residentSet) add(r *replica, s *session, foot int) {
	s.resident, s.resIndex, s.resFoot, s.resRoot = r, len(rs.sessions), foot, s.root
	rs.sessions = append(rs.sessions, s)
	rs.foot += foot
	rs.useRoot(s.root, 1)
	rs.occupied += float64(foot)
	rs.firm++
	rs.stale = true
}

func (rs *residentSet) remove(s *session) {
	last := len(rs.sessions) - 1
	rs.sessions[s.resIndex] = rs.sessions[last]
	rs.sessions[s.resIndex].resIndex = s.resIndex
	rs.sessions[last] = nil
	rs.sessions = rs.sessions[:last]
	rs.foot -= s.resFoot
	rs.useRoot(s.resRoot, -1)
	s.resident, s.resFoot, s.resRoot = nil, 0, nil
	rs.stale = true
}

// resize gives s another footprint.
func (rs *residentSet) resize(s *session, foot int) {
	rs.foot += foot - s.resFoot
	rs.occupied += float64(foot - s.resFoot)
	s.resFoot = foot
	rs.stale = true
}

func (rs *residentSet) clear() {
	for len(rs.sessions) > 0 {
		rs.remove(rs.sessions[len(rs.sessions)-1])
	}
}

// shared is the tokens of the shared prefixes of the residents and of one more.
func (rs *residentSet) shared(more *root) int {
	n := 0
	for _, u := range rs.roots {
		if u.root == more {
			more = nil
		}
		n += u.root.tokens
	}
	if more != nil {
		n += more.tokens
	}
	return n
}

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

// weigh brings the weights of r's residents up to date: occupied is the tokens
// that they are likely to need, releasable the part of it that belongs to those
// likely gone, undecided the part of those whose turn has only just ended, firm
// the number of those not likely gone.
func (a *admission) weigh(p *Placer, r *replica, now time.Time) {
	rs := &r.res
	horizon := a.horizon(r)
	rs.occupied, rs.releasable, rs.undecided, rs.firm = 0, 0, 0, 0
	for _, s := range rs.sessions {
		w := a.weight(s, horizon, now)
		need := w * float64(s.resFoot)
		rs.occupied += need
		switch {
		case w < likelyGone:
			rs.releasable += need
		case !s.busy() && now.Sub(s.endedAt) < settle:
			rs.undecided += need
			rs.firm++
		default:
			rs.firm++
		}
	}
	rs.weighedAt, rs.stale = now, false
}

// weight is the probability that s comes back while keeping it is cheaper than
// computing it again.
func (a *admission) weight(s *session, horizon time.Duration, now time.Time) float64 {
	if s.inflight > 0 || s.waiting > 0 || s.endedAt.IsZero() {
		return 1
	}
	return a.gaps[s.finish].returns(s.endedAt, now, horizon)
}

// horizonShare scales the time that one slot is worth holding: the seconds of
// a slot that computing a conversation again costs. Found on the ladder: 0.4
// to 1.0 differ by 2 % while gaps are short; more over-holds when they are long.
const horizonShare = 0.7

// horizon is how long it pays to keep a slot of r for a conversation that is
// away: the time to compute an average resident again, times the residents,
// because all of them wait meanwhile.
func (a *admission) horizon(r *replica) time.Duration {
	n := len(r.res.sessions)
	if n == 0 {
		return 0
	}
	again := float64(r.res.foot) / r.rate.tokensPerSecond() // all residents
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
	age := now.Sub(r.res.weighedAt)
	old := r.res.stale || age >= weighEvery || (r.res.undecided > 0 && age >= settle)
	if old && a.weighings > 0 {
		a.weighings -= len(r.res.sessions)
		a.weigh(p, r, now)
	}
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
		a.releaseUntil(p, r, free, likelyGone, now)
	}
}

// handedOut is the room, in tokens, for r's residents, with the shared prefix
// of one more.
func (r *replica) handedOut(more *root) float64 {
	return r.safety.share()*float64(r.capacity()) - float64(r.res.shared(more)+r.loose)
}

// releaseUntil releases idle residents with a weight below limit, least likely
// to return first and among equals the one admitted latest, until the others
// need at most free tokens.
func (a *admission) releaseUntil(p *Placer, r *replica, free, limit float64, now time.Time) {
	horizon := a.horizon(r)
	a.weigh(p, r, now)
	if r.res.occupied <= free {
		return
	}
	a.idle = a.idle[:0]
	for i := len(r.res.sessions) - 1; i >= 0; i-- {
		if s := r.res.sessions[i]; !s.busy() {
			if w := a.weight(s, horizon, now); w < limit {
				a.idle = append(a.idle, weighed{s, w})
			}
		}
	}
	slices.SortStableFunc(a.idle, func(x, y weighed) int { return cmp.Compare(x.weight, y.weight) })
	for _, v := range a.idle {
		if r.res.occupied <= free || len(r.res.sessions) == 1 {
			break
		}
		r.res.occupied -= v.weight * float64(v.session.resFoot)
		r.res.remove(v.session)
	}
	clear(a.idle)
}

// weighed is an idle resident with its weight.
type weighed struct {
	session *session
	weight  float64
}
