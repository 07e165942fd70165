package placement

import (
	"slices"
	"time"
)

// residentSet is the set of conversations whose KV an engine is meant to keep.
// Only their turns are sent without asking for room.
type residentSet struct {
	members []resident
	foot    int // tokens of all of them, shared prefixes not counted
	roots   []rootUse

	// The sums of the members' weights, kept with every change: occupied is
	// the tokens that they are likely to need, releasable the part of it that
	// belongs to those likely gone, undecided the part of those whose turn has
	// only just ended, firm the number of those not likely gone.
	occupied, releasable, undecided float64
	firm                            int
	weighedAt                       time.Time
}

// resident is a member of the set, with copies of what its weight depends on:
// all members are gone through at once, and following a pointer for each would
// cost more than the arithmetic.
type resident struct {
	session *session
	root    *root // shared prefix it is counted with
	foot    int   // tokens it is counted with
	busy    bool
	finish  finishClass
	endedAt time.Time
	// weight is the probability that it comes back while keeping it is cheaper
	// than computing it again; 1 while it is busy.
	weight    float64
	undecided bool
}

// need is the tokens that count for m.
func (m *resident) need() float64 { return m.weight * float64(m.foot) }

// rootUse counts the residents with one shared prefix. A replica has a handful
// of them, one for each kind of agent.
type rootUse struct {
	root      *root
	residents int
}

func (rs *residentSet) add(r *replica, s *session, foot int) {
	s.resident, s.resIndex = r, len(rs.members)
	rs.members = append(rs.members, resident{
		session: s, root: s.root, foot: foot, weight: 1,
		busy: s.busy() || s.endedAt.IsZero(), finish: s.finish, endedAt: s.endedAt,
	})
	rs.count(&rs.members[s.resIndex], 1)
	rs.foot += foot
	rs.useRoot(s.root, 1)
}

func (rs *residentSet) remove(s *session) {
	last := len(rs.members) - 1
	m := rs.members[s.resIndex]
	rs.count(&m, -1)
	rs.members[s.resIndex] = rs.members[last]
	rs.members[s.resIndex].session.resIndex = s.resIndex
	rs.members[last] = resident{}
	rs.members = rs.members[:last]
	rs.foot -= m.foot
	rs.useRoot(m.root, -1)
	s.resident = nil
}

// update copies what has changed in s. A busy member weighs 1; one that has
// become idle is weighed anew by the next weigh or judge.
func (rs *residentSet) update(s *session) {
	m := &rs.members[s.resIndex]
	m.busy, m.finish, m.endedAt = s.busy() || s.endedAt.IsZero(), s.finish, s.endedAt
	if m.busy {
		rs.set(m, 1, false)
	}
}

// resize gives s another footprint.
func (rs *residentSet) resize(s *session, foot int) {
	m := &rs.members[s.resIndex]
	rs.count(m, -1)
	rs.foot += foot - m.foot
	m.foot = foot
	rs.count(m, 1)
}

// set gives m another weight.
func (rs *residentSet) set(m *resident, weight float64, undecided bool) {
	rs.count(m, -1)
	m.weight, m.undecided = weight, undecided
	rs.count(m, 1)
}

// count adds m to the sums, or takes it out with sign -1.
func (rs *residentSet) count(m *resident, sign int) {
	need := float64(sign) * m.need()
	rs.occupied += need
	if m.weight < likelyGone {
		rs.releasable += need
		return
	}
	rs.firm += sign
	if m.undecided {
		rs.undecided += need
	}
}

func (rs *residentSet) clear() {
	for len(rs.members) > 0 {
		rs.remove(rs.members[len(rs.members)-1].session)
	}
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
