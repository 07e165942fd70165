package ledger

import (
	"slices"
	"time"
)

// Residents is the set of conversations whose KV an engine is meant to keep.
// Only their turns are sent without asking for room.
type Residents struct {
	members []Resident
	foot    int // tokens of all of them, shared prefixes not counted
	roots   []rootUse
	loose   int // tokens of held turns outside the set

	// The sums of the members' weights, kept with every change: occupied is
	// the tokens that they are likely to need, releasable the part of it that
	// belongs to those likely gone, undecided the part of those whose turn has
	// only just ended, firm the number of those not likely gone.
	occupied, releasable, undecided float64
	firm                            int
	weighedAt                       time.Time
}

// Resident is a member of the set, with copies of what its weight depends on:
// all members are gone through at once, and following a pointer for each would
// cost more than the arithmetic.
type Resident struct {
	session *Session
	root    *Root // shared prefix it is counted with
	foot    int   // tokens it is counted with
	busy    bool
	finish  FinishClass
	endedAt time.Time
	// weight is the probability that it comes back while keeping it is cheaper
	// than computing it again; 1 while it is busy.
	weight    float64
	undecided bool
}

// Session is the conversation.
func (m *Resident) Session() *Session { return m.session }

// Busy reports that a turn of it is in flight or waits, or that none has ended.
func (m *Resident) Busy() bool { return m.busy }

// Finish is how its latest turn ended, EndedAt when.
func (m *Resident) Finish() FinishClass { return m.finish }

// EndedAt is described at Finish.
func (m *Resident) EndedAt() time.Time { return m.endedAt }

// Weight is what it was last found to weigh.
func (m *Resident) Weight() float64 { return m.weight }

// need is the tokens that count for m.
func (m *Resident) need() float64 { return m.weight * float64(m.foot) }

// Weigher says what a resident weighs, and whether nobody can tell yet because
// its turn has only just ended.
type Weigher func(m *Resident) (weight float64, undecided bool)

// LikelyGone is the weight below which an idle resident gives way to a waiting
// conversation. Found on the ladder: 0.3 costs 9 % of the throughput at gaps of
// 15 s, 0.7 costs 7 % at gaps of 2 s.
const LikelyGone = 0.5

// Len is how many there are, At the i-th of them in no order.
func (rs *Residents) Len() int { return len(rs.members) }

// At is described at Len.
func (rs *Residents) At(i int) *Resident { return &rs.members[i] }

// Foot is the tokens of all of them, the shared prefixes not counted.
func (rs *Residents) Foot() int { return rs.foot }

// Occupied is the tokens that all are likely to need, Firm those of all who are
// not likely gone, Undecided the part of Firm of whom nobody can tell yet.
func (rs *Residents) Occupied() float64 { return rs.occupied }

// Firm is described at Occupied.
func (rs *Residents) Firm() float64 { return rs.occupied - rs.releasable }

// Undecided is described at Occupied.
func (rs *Residents) Undecided() float64 { return rs.undecided }

// AllGone reports that nobody is there who is not likely gone.
func (rs *Residents) AllGone() bool { return rs.firm == 0 }

// WeighedAt is when all were last weighed.
func (rs *Residents) WeighedAt() time.Time { return rs.weighedAt }

// Loosen counts tokens of a held turn outside the set; negative when it ends.
func (rs *Residents) Loosen(tokens int) { rs.loose += tokens }

// Room is the tokens of r's cache that are handed out to residents, if one with
// that root joins them.
func (r *Replica) Room(more *Root) float64 {
	return r.Safety.Share()*float64(r.Capacity()) - float64(r.Residents.shared(more)+r.Residents.loose)
}

// Admit promises foot tokens of r's cache to s, which is resident nowhere.
func (r *Replica) Admit(s *Session, foot int) {
	rs := &r.Residents
	s.resident, s.resIndex = r, len(rs.members)
	rs.members = append(rs.members, Resident{
		session: s, root: s.root, foot: foot, weight: 1,
		busy: s.Busy() || s.endedAt.IsZero(), finish: s.finish, endedAt: s.endedAt,
	})
	rs.count(&rs.members[s.resIndex], 1)
	rs.foot += foot
	rs.useRoot(s.root, 1)
}

// Release ends the promise to s, which is resident on r.
func (r *Replica) Release(s *Session) {
	rs := &r.Residents
	last := len(rs.members) - 1
	m := rs.members[s.resIndex]
	rs.count(&m, -1)
	rs.members[s.resIndex] = rs.members[last]
	rs.members[s.resIndex].session.resIndex = s.resIndex
	rs.members[last] = Resident{}
	rs.members = rs.members[:last]
	rs.foot -= m.foot
	rs.useRoot(m.root, -1)
	s.resident = nil
}

// ReleaseAll ends all promises.
func (r *Replica) ReleaseAll() {
	for n := len(r.Residents.members); n > 0; n = len(r.Residents.members) {
		r.Release(r.Residents.members[n-1].session)
	}
}

// update copies what has changed in s. A busy member weighs 1; one that has
// become idle is weighed anew by the next Weigh or Judge.
func (rs *Residents) update(s *Session) {
	m := &rs.members[s.resIndex]
	m.busy, m.finish, m.endedAt = s.Busy() || s.endedAt.IsZero(), s.finish, s.endedAt
	if m.busy {
		rs.set(m, 1, false)
	}
}

// Resize gives s, a member, another footprint.
func (rs *Residents) Resize(s *Session, foot int) {
	m := &rs.members[s.resIndex]
	rs.count(m, -1)
	rs.foot += foot - m.foot
	m.foot = foot
	rs.count(m, 1)
}

// Judge weighs s, a member.
func (rs *Residents) Judge(s *Session, weigh Weigher) {
	m := &rs.members[s.resIndex]
	weight, undecided := weigh(m)
	rs.set(m, weight, undecided)
}

// Weigh weighs all members. The sums of many small changes drift, so they start
// again from what is there.
func (rs *Residents) Weigh(now time.Time, weigh Weigher) {
	rs.occupied, rs.releasable, rs.undecided, rs.firm = 0, 0, 0, 0
	for i := range rs.members {
		m := &rs.members[i]
		m.weight, m.undecided = weigh(m)
		rs.count(m, 1)
	}
	rs.weighedAt = now
}

// set gives m another weight.
func (rs *Residents) set(m *Resident, weight float64, undecided bool) {
	rs.count(m, -1)
	m.weight, m.undecided = weight, undecided
	rs.count(m, 1)
}

// count adds m to the sums, or takes it out with sign -1.
func (rs *Residents) count(m *Resident, sign int) {
	need := float64(sign) * m.need()
	rs.occupied += need
	if m.weight < LikelyGone {
		rs.releasable += need
		return
	}
	rs.firm += sign
	if m.undecided {
		rs.undecided += need
	}
}

// rootUse counts the residents with one shared prefix. A replica has a handful
// of them, one for each kind of agent.
type rootUse struct {
	root      *Root
	residents int
}

// useRoot changes the number of residents with rt by n.
func (rs *Residents) useRoot(rt *Root, n int) {
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
func (rs *Residents) shared(more *Root) int {
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
